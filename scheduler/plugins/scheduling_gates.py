"""Keeps a pod out of the active queue until all its scheduling gates are removed.

Source: ``plugins/schedulinggates/scheduling_gates.go``.
"""

from scheduler.framework.cluster_event import POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import Gate
from scheduler.model.pod import Pod


def _own_gates_gone(pod: Pod, change: Change) -> bool:
    return not isinstance(change.new, Pod) or change.new.uid == pod.uid


class SchedulingGates:
    """Keeps pods that have scheduling gates out of the queue."""

    name = "SchedulingGates"
    requeue_on = (
        Requeue(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED), _own_gates_gone),
    )

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Gate *pod* if it has scheduling gates, and name them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return Gate(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")
