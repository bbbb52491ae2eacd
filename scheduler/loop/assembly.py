"""Joins cache, queue and cycle to the loop; what reaches the outside comes in as arguments.

The process is put together in app; this half of it is the same around a real API server and around
a simulated one.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.document import Extender
from scheduler.framework.extending import ExtenderVerdicts
from scheduler.framework.plugin import SortKey
from scheduler.framework.profile import Profile
from scheduler.kube.requests import Requests
from scheduler.loop.binding_cycle import BindingCycle
from scheduler.loop.control_loop import Asker, ControlLoop, LoopSettings, nobody_to_ask
from scheduler.loop.evictions import EvictionGate, Evictions
from scheduler.loop.fact_handlers import FactHandlers
from scheduler.loop.failures import Failed, Failures
from scheduler.loop.inbox import Inbox
from scheduler.loop.plugin_care import PluginCare
from scheduler.loop.stall_timer import StallTimer
from scheduler.loop.status_writer import StatusWriter
from scheduler.loop.telemetry import Telemetry
from scheduler.model.fact import ResourceName
from scheduler.model.pod import Pod
from scheduler.queue.hints import rules_for
from scheduler.queue.scheduling_queue import QueueSettings, SchedulingQueue


@dataclass(frozen=True, slots=True)
class Core:
    """The loop with its cache and queue, and the inbox that leads to it."""

    loop: ControlLoop
    cache: ClusterCache
    queue: SchedulingQueue
    inbox: Inbox
    binding: BindingCycle
    evictions: Evictions
    status: StatusWriter
    care: PluginCare


def build_core(
    *,
    profiles: Mapping[str, Profile],
    requests: Requests,
    binds: Requests,
    pace: Callable[[], Awaitable[None]],
    telemetry: Telemetry,
    awaited: Iterable[ResourceName],
    may_act: Callable[[], bool],
    queue_settings: QueueSettings,
    loop_settings: LoopSettings,
    extenders: Sequence[Extender] = (),
    ask: Asker = nobody_to_ask,
    foreign: Mapping[str, Collection[str]] = MappingProxyType({}),
    timer: StallTimer | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Core:
    """Join the pure rooms to the loop; what reaches the outside comes in as arguments.

    *requests* keeps to the rate limit by itself; *binds* does not, since a bind waits for *pace*
    first and is checked once more after it.
    """
    first = next(iter(profiles.values()))
    care = PluginCare(profiles, foreign, telemetry, timer)
    cache, inbox = ClusterCache(), Inbox()
    gate = EvictionGate(lambda pod: evictions.holds_back(pod))  # noqa: PLW0108 - made below
    beside = (gate, ExtenderVerdicts()) if extenders else (gate,)
    queue = SchedulingQueue(
        {
            name: care.rules(profile, rules_for((*profile.plugins, *beside)))
            for name, profile in profiles.items()
        },
        _careful_sort_key(first, care, telemetry),
        queue_settings,
        telemetry,
    )
    status = StatusWriter(requests, telemetry)
    failures = Failures(
        queue=queue,
        status=status,
        telemetry=telemetry,
        newest=lambda pod: handlers.newest(pod),  # noqa: PLW0108 - made below
        clock=clock,
        wall=_wall,
    )
    binding = BindingCycle(
        cache=cache,
        queue=queue,
        inbox=inbox,
        failures=failures,
        requests=binds,
        pace=pace,
        telemetry=telemetry,
        care=care,
        clock=clock,
        extenders=extenders,
        ask=ask,
        left=lambda pod: evictions.left(pod),  # noqa: PLW0108 - made below
    )
    evictions = Evictions(
        cache=cache,
        queue=queue,
        inbox=inbox,
        requests=requests,
        binding=binding,
        status=status,
        telemetry=telemetry,
        clock=clock,
        wall=_wall,
    )
    handlers = FactHandlers(
        cache,
        queue,
        frozenset(profiles),
        telemetry,
        evictions=evictions,
        condemned=binding.condemned,
        unreadable=lambda pod: failures.report(pod, _unreadable(pod)),
    )
    loop = ControlLoop(
        care=care,
        cache=cache,
        queue=queue,
        inbox=inbox,
        handlers=handlers,
        binding=binding,
        failures=failures,
        evictions=evictions,
        telemetry=telemetry,
        awaited=tuple(awaited),
        may_act=may_act,
        clock=clock,
        settings=loop_settings,
        extenders=extenders,
        ask=ask,
    )
    return Core(loop, cache, queue, inbox, binding, evictions, status, care)


def _careful_sort_key(
    profile: Profile, care: PluginCare, telemetry: Telemetry
) -> Callable[[Pod], SortKey]:
    """Return the plugin's key, by which pods can always be ordered whatever the plugin does."""
    plugin = profile.queue_sort
    sort_key = care.method("QueueSort", profile, plugin.name, plugin.sort_key)
    kind: type[SortKey] = type(plugin.sort_key(Pod()))

    def key(pod: Pod) -> SortKey:
        try:
            found = sort_key(pod)
            if isinstance(found, kind):
                return found
            problem = f"sort_key returned {found!r}, not {kind.__name__} as for other pods"
        except Exception as bug:  # noqa: BLE001 - a plugin's bug must not lose a pod
            problem = f"sort_key raised {type(bug).__name__}: {bug}"
        telemetry.plugin_failed(plugin.name, "QueueSort", problem)
        return kind()

    return key


def _unreadable(pod: Pod) -> Failed:
    return Failed.error(f"the pod cannot be read: {pod.malformed}")


def _wall() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
