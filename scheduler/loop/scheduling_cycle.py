"""The scheduling cycle of one pod: its profile and the cluster as it is now, a decision out.

Source: ``pkg/scheduler/schedule_one.go`` (schedulingCycle).
"""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.scheduling import Attempt, ExtenderResponses, schedule
from scheduler.framework.decision import Decision
from scheduler.framework.extender_protocol import ExtenderRequests
from scheduler.framework.profile import Profile
from scheduler.kube.extenders import Extenders
from scheduler.model.pod import Pod
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.telemetry import Telemetry


class SchedulingCycle:
    """Prepares attempts and runs the cycle.

    Args:
        supervisor: Knows the profiles, and which of them are stopped.
        extenders: Replaced as a whole by a reload.
        seed: Chooses among equal nodes, together with the pod and the node.
    """

    def __init__(
        self,
        *,
        cache: ClusterCache,
        queue: SchedulingQueue,
        supervisor: PluginSupervisor,
        telemetry: Telemetry,
        extenders: Extenders,
        seed: int,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._supervisor = supervisor
        self._telemetry = telemetry
        self._seed = seed
        self.extenders = extenders

    def profile_of(self, pod: Pod) -> Profile | None:
        """Return the profile of the pod's scheduler name, with the plugins that still work."""
        return self._supervisor.profile(pod.spec.scheduler_name)

    def why_stopped(self, profile: Profile) -> str:
        """Return why *profile* takes no pods; empty where it does."""
        return self._supervisor.stopped.get(profile.scheduler_name, "")

    def has_node(self, pod: Pod) -> bool:
        """Tell whether *pod* is bound or assumed already."""
        return self._cache.pod(pod.uid) is not None

    def attempt(self, profile: Profile, pod: Pod) -> Attempt:
        """Return all that the decision about *pod* depends on."""
        # A nomination of ours may not have reached the API server yet.
        node = self._queue.nominated_node(pod.uid)
        if node and node != pod.nominated_node:
            pod = pod.nominated_to(node)
        return Attempt(
            profile,
            pod,
            self._cache.view(),
            self._queue.nominated_pods(),
            self._seed,
            self.extenders.extenders,
            self._supervisor.watch(profile, pod, self._telemetry.cycle_observer(profile)),
        )

    async def decide(self, attempt: Attempt, pause: Callable[[], Awaitable[None]]) -> Decision:
        """Run the cycle; it calls extenders, and *pause* wherever it may be interrupted.

        Facts wait in the inbox meanwhile: one cycle sees one state.
        """
        cycle = schedule(attempt)
        responses: ExtenderResponses = None
        while True:
            try:
                step = cycle.send(responses)
            except StopIteration as end:
                decision: Decision = end.value
                return decision
            if isinstance(step, ExtenderRequests):
                responses = tuple(await asyncio.gather(*map(self.extenders.ask, step.requests)))
                continue
            responses = None
            await pause()
