"""Moves preemptions on as facts arrive: their pods wait, are activated, or are retried."""

from collections.abc import Iterable

from scheduler.framework.decision import Preempt
from scheduler.kube.pod_status import withdrawal_patch
from scheduler.model.pod import Pod
from scheduler.preemption.freed_capacity import FreedCapacities
from scheduler.preemption.preemptions import Cause, Preemption, Preemptions, State
from scheduler.queue.queue_state import QueueState
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.status_writer import StatusWriter


class Preemptors:
    """Moves preemptions on as facts come in, and activates preemptors.

    Args:
        preemptions: All that are under way.
        freed: Keeps the freed capacity until a preemptor uses it.
        status: Withdraws nominations.
    """

    def __init__(
        self,
        preemptions: Preemptions,
        freed: FreedCapacities,
        queue: SchedulingQueue,
        status: StatusWriter,
        clock: Clock,
    ) -> None:
        self.preemptions = preemptions
        self._freed = freed
        self._queue = queue
        self._status = status
        self._clock = clock

    # Facts.

    def pod_left(self, gone: Pod) -> None:
        """Note that a pod has left its node."""
        for preemption in self.preemptions.pod_left(gone):
            self._activate_if_due(preemption)

    def pod_terminates(self, pod: Pod) -> None:
        """Note that a pod with a node is being deleted."""
        for preemption in self.preemptions.awaiting(pod.uid):
            self._activate_if_due(preemption)

    def abandon(self, pod: Pod) -> None:
        """Note that *pod* needs no capacity any more: it is bound, deleted or no longer ours."""
        self.preemptions.end(pod.uid, Cause.ABANDONED)
        self._freed.forget(pod.uid)

    def node_removed(self, node: str) -> None:
        """Withdraw all nominations to *node*, and let its preemptors look for another one.

        Preemptors are activated even where a more important pod has cleared their nomination.
        """
        waiting = [preemption.pod for preemption in self.preemptions.on_node(node)]
        for pod in waiting:
            self.preemptions.end(pod.uid, Cause.NODE_REMOVED)
        nominees = self._queue.own_nominees(node)
        self._withdraw(nominees)
        freed = dict.fromkeys(pod.uid for pod in (*nominees, *waiting))
        self._queue.activate(freed, self._clock.now())

    # Of one preemption.

    def begin(self, decision: Preempt, victims: list[Pod]) -> Preemption:
        """Begin a preemption, and remember the capacity that it frees."""
        pod, node = decision.pod, decision.node
        preemption = self.preemptions.begin(pod, node, victims, self._clock.now())
        self._freed.begin(pod.uid, node)
        return preemption

    def withdraw_lower(self, preemption: Preemption) -> None:
        """Withdraw nominations of less important pods to the same node.

        As upstream does in prepareCandidate: they may not fit any more, and look for another node.
        """
        nominees = self._queue.own_nominees(preemption.node)
        self._withdraw(each for each in nominees if each.priority < preemption.pod.priority)

    def evicted(self, preemption: Preemption) -> None:
        """Note that all victims have been evicted; the gate is open."""
        preemption.move(Cause.EVICTED, State.LEAVING)
        self._activate_if_due(preemption)

    def resume(self, preemption: Preemption) -> None:
        """Activate a pod after its evictions failed and the pause is over."""
        if self.preemptions.is_current(preemption):
            self.preemptions.end(preemption.pod.uid, Cause.RESUMED)
            self._freed.forget(preemption.pod.uid)
            self._queue.activate((preemption.pod.uid,), self._clock.now())

    def _activate_if_due(self, preemption: Preemption) -> None:
        """Activate the pod as soon as all its victims have left, whatever its backoff."""
        if preemption.state in {State.EVICTING, State.PAUSED}:
            return
        if not preemption.remaining:
            self.preemptions.end(preemption.pod.uid, Cause.VICTIMS_GONE)
            self._freed.mark_free(preemption.pod.uid)
        elif not self._is_due_at_gate(preemption):
            return
        self._queue.activate((preemption.pod.uid,), self._clock.now())

    def _is_due_at_gate(self, preemption: Preemption) -> bool:
        """Tell whether the pod came to the gate while that was closed, and may go on now.

        Changes that could help it did not requeue it then, so it gets an attempt. But not before
        all victims are known to terminate: the API server's answer comes before the watch does, and
        an attempt that takes them for running pods would evict them again, and so on in a busy loop
        until the watch has caught up.
        """
        if preemption.state is not State.LEAVING:
            return False
        at_gate = self._queue.state_of(preemption.pod.uid) is QueueState.GATED
        return at_gate and self.preemptions.all_terminate(preemption)

    def _withdraw(self, nominees: Iterable[Pod]) -> None:
        for pod in tuple(nominees):
            self._queue.withdraw(pod, self._clock.now())
            self._status.append(pod, withdrawal_patch(pod))
