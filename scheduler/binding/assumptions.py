"""Assumed pods: counted on their node before the API server confirms the binding.

What follows from an assumption, and from its end, for nominations, for pods that wait and for
preemptions, follows in one place.

Source: ``pkg/scheduler/schedule_one.go`` (assume) and ``pkg/scheduler/backend/cache/cache.go``.
"""

from collections.abc import Callable

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, Change
from scheduler.framework.decision import Bind
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock


class Assumptions:
    """Assumes pods on nodes and forgets them again.

    Args:
        on_pod_left: Called with an assumed pod that lost its node: it may have been a victim.
    """

    def __init__(
        self,
        cache: ClusterCache,
        queue: SchedulingQueue,
        clock: Clock,
        on_pod_left: Callable[[Pod], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._on_pod_left = on_pod_left

    def assume(self, decision: Bind) -> Pod:
        """Count the pod on its node, end its nomination, and return the pod as placed."""
        pod = self._cache.assume(decision.pod, decision.node)
        self._queue.withdraw(pod, self._clock.now(), placed_on=decision.node)
        return pod

    def exists(self, uid: PodUid) -> bool:
        """Tell whether a pod is assumed, by any attempt."""
        return self._cache.is_assumed(uid)

    def stands(self, placed: Pod) -> bool:
        """Tell whether *placed*, which ``assume`` returned, is still assumed."""
        return self._cache.assumes(placed)

    def is_superseded(self, placed: Pod) -> bool:
        """Tell whether the pod is assumed by a later attempt than that of *placed*."""
        return self._cache.is_assumed(placed.uid) and not self._cache.assumes(placed)

    def forget(self, uid: PodUid) -> Pod | None:
        """Free what a pod takes on its node, without waking anyone; None if it is not assumed."""
        return self._cache.forget(uid)

    def wake_others(self, freed: Pod, *, but: Pod | None = None) -> None:
        """Requeue pods that could use what *freed* took; never the pod *but*."""
        self._queue.note(
            Change(ASSIGNED_POD_DELETE, freed, None),
            self._clock.now(),
            only=None if but is None else lambda pod: pod.uid != but.uid,
        )
        self._on_pod_left(freed)
