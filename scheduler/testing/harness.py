"""The real scheduler around a simulated API server, in virtual time.

::

    async def scenario():
        async with Harness() as cluster:
            cluster.create(make_node("a"), pod := make_pod(requests="1 cpu"))
            await cluster.settle()
            assert cluster.node_of(pod) == "a"

Cache, queue, cycle, loop and binding are the ones that production builds; only the API server and
the clock are simulated.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from scheduler.binding.binding_requests import BindingRequests
from scheduler.config.configuration import read
from scheduler.framework.profile import Profile, Weighted
from scheduler.framework.registry import Registry
from scheduler.kube.binding import BIND_RETRIES
from scheduler.kube.events import Event
from scheduler.kube.pod_status import PATCH_RETRIES
from scheduler.kube.requests import Requests
from scheduler.kube.retry import THROTTLED_ONLY
from scheduler.loop.control_loop import LoopSettings
from scheduler.loop.core import LoopConfiguration, SchedulerCore
from scheduler.model.fact import KubeObject, Resource
from scheduler.model.pod import Pod
from scheduler.observe.metrics import Metrics
from scheduler.out_of_tree.loading import out_of_tree_plugins
from scheduler.plugins import IN_TREE
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.queue.queue_settings import QueueSettings
from scheduler.reporting.clock import Clock
from scheduler.reporting.telemetry import Recorder, Telemetry
from scheduler.testing.documents import Document, pod_path
from scheduler.testing.simulated_api import NOW, SimulatedApi

SCHEDULER_NAME: Final = "py-scheduler"
WATCHING: Final = (Resource.POD, Resource.FAILED_POD, Resource.NODE)
_BEGINNING: Final = datetime.fromisoformat(NOW).timestamp()
_LATE: Final = ("reserve", "permit", "pre_bind")


class RecordedEvents(Recorder):
    """Keeps the events that the scheduler wants delivered."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        """Keep *event*."""
        self.events.append(event)


class Harness:
    """A scheduler that runs while the context is open.

    Args:
        plugins: Run after the in-tree plugins, at every extension point that they serve.
        profiles: Profiles instead of the in-tree one.
        api: The API server, for one with faults of its own.
        requests: Carries requests to the API server; the API server itself by default.
        listed: Whether everything is listed at the start; otherwise the scheduler waits for it.
        seed: Chooses among equal nodes, and how long retries wait.
    """

    def __init__(
        self,
        *plugins: Any,
        profiles: Iterable[Profile] = (),
        api: SimulatedApi | None = None,
        requests: Requests | None = None,
        watching: Iterable[Resource] = WATCHING,
        listed: bool = True,
        queue: QueueSettings | None = None,
        loop: LoopSettings | None = None,
        may_act: Callable[[], bool] = lambda: True,
        seed: int = 0,
    ) -> None:
        for settings in (BIND_RETRIES, PATCH_RETRIES, THROTTLED_ONLY):
            settings.rng.seed(seed)
        resources = tuple(watching)
        chosen = tuple(profiles) or (default_profile(*plugins),)
        self.recorder = RecordedEvents()
        self.metrics = Metrics()
        self.api = api or SimulatedApi(watching=resources)
        self._requests = requests or self.api
        self.telemetry = Telemetry(self.metrics)
        self.telemetry.recorder = self.recorder
        self._listed = listed
        self._settings = {
            "configuration": LoopConfiguration(
                {profile.scheduler_name: profile for profile in chosen},
                {profile.scheduler_name: out_of_tree_plugins(profile) for profile in chosen},
                queue or QueueSettings(),
                awaited=frozenset(resources),
            ),
            "may_act": may_act,
            "settings": loop or LoopSettings(seed=seed),
        }
        self.core: SchedulerCore
        self.running: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        now = asyncio.get_running_loop().time
        self.core = SchedulerCore(
            requests=self._requests,
            binds=BindingRequests(self._requests, _no_limit, self.telemetry),
            telemetry=self.telemetry,
            # The time of day advances, too: statuses contain timestamps.
            clock=Clock(now, lambda: _BEGINNING + now()),
            **self._settings,  # type: ignore[arg-type] # of as many types as there are settings
        )
        self.api.deliver = self.core.inbox.put
        if self._listed:
            self.api.list_all()
        self.running = asyncio.create_task(self.core.loop.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.core.loop.stop()
        if error is not None:
            self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=error is not None)
        await self.core.status.close(1.0)
        if error is None:
            self.check_invariants()

    # For tests: changes, and their results.

    def create(self, *items: KubeObject) -> None:
        """Create objects in the cluster."""
        for item in items:
            self.api.create(item)

    async def settle(self, seconds: float = 0.5) -> None:
        """Let *seconds* pass; a broken loop raises what broke it."""
        await asyncio.wait((self.running,), timeout=seconds)
        if self.running.done():
            self.running.result()

    def document(self, pod: Pod) -> Document:
        """Return *pod* as the API server has it."""
        return self.api.documents[pod_path(pod)]

    def node_of(self, pod: Pod) -> str:
        """Return the node of *pod*, as the API server has it; empty while it is pending."""
        return str(self.document(pod)["spec"].get("nodeName") or "")

    def condition(self, pod: Pod, kind: str = "PodScheduled") -> tuple[str, str, str]:
        """Return status, reason and message of the pod's condition of that *kind*; else empty."""
        for each in self.document(pod).get("status", {}).get("conditions") or []:
            if each["type"] == kind:
                return each["status"], each.get("reason", ""), each.get("message", "")
        return "", "", ""

    def state_of(self, pod: Pod) -> str:
        """Return the state of *pod* in the queue; empty where it has none."""
        state = self.core.queue.state_of(pod.uid)
        return state.value if state else ""

    def events_of(self, pod: Pod) -> list[tuple[str, str]]:
        """Return reason and note of the events about *pod*, in order."""
        return [(e.reason, e.note) for e in self.recorder.events if e.regarding.uid == pod.uid]

    def attempts(self, result: str) -> int:
        """Return how many attempts ended as *result*: scheduled, unschedulable or error."""
        name = "scheduler_schedule_attempts_total"
        return int(self.metric(name, result=result, profile=SCHEDULER_NAME))

    def metric(self, name: str, /, **labels: str) -> float:
        """Return the sample of *name* and *labels*; zero where nothing was counted yet."""
        return self.metrics.registry.get_sample_value(name, labels) or 0

    def check_invariants(self) -> None:
        """Assert what must hold at any moment."""
        self.core.cache.check_invariants()
        self.core.queue.check_invariants()
        self.core.preemptions.check_invariants()
        for queued in self.core.queue:
            assumed = self.core.cache.is_assumed(queued.pod.uid)
            assert not assumed, f"waits although it is assumed: {queued}"


def default_profile(*plugins: Any) -> Profile:
    """Return the in-tree plugins in their default order, followed by *plugins*."""
    registry = Registry(IN_TREE)
    spec = read().resolve(registry.available).profiles[0]
    return with_plugins(registry.build(spec), *plugins)


def bare_profile(*plugins: Any) -> Profile:
    """Return a profile of *plugins* alone; pods go by priority."""
    return with_plugins(Profile(SCHEDULER_NAME, PrioritySort()), *plugins)


def with_plugins(profile: Profile, *plugins: Any, weight: int = 1) -> Profile:
    """Return *profile* with *plugins* run last, at every extension point that they serve."""
    lists: dict[str, Any] = {}
    for point in ("pre_enqueue", "pre_filter", "filter", "post_filter", "score", *_LATE):
        serving = tuple(plugin for plugin in plugins if hasattr(plugin, point))
        if point == "score":
            serving = tuple(Weighted(plugin, weight) for plugin in serving)
        lists[point] = getattr(profile, point) + serving
    return replace(profile, **lists)


async def _no_limit() -> None:
    """Do not limit the rate of requests."""
