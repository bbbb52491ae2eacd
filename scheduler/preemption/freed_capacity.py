"""Room that was made on nodes, and who came there before the pod it was made for.

A scheduler that knows nothing of our nominations may place its pods, often the victims'
successors, into the room as soon as it is there. Evicting them as well would go on for ever. This
only remembers who came; the filters tell whether they are to blame
(`scheduler.cycle.taken_capacity`).
"""

from dataclasses import dataclass, field

from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod


@dataclass(slots=True)
class FreedCapacity:
    """Room that was made for one pod.

    Args:
        clear: Whether all victims have left.
        taken_by: Pods of other schedulers that came since the eviction began, by UID.
    """

    node: str
    clear: bool = False
    taken_by: dict[PodUid, Pod] = field(default_factory=dict)


class FreedCapacities:
    """The room that our preemptions have made, until the pod is bound, gone or given other room."""

    def __init__(self) -> None:
        self._rooms: dict[PodUid, FreedCapacity] = {}
        self._for: dict[str, set[PodUid]] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def begin(self, uid: PodUid, node: str) -> None:
        """Note that room is being made for a pod."""
        self.forget(uid)
        self._rooms[uid] = FreedCapacity(node)
        self._for.setdefault(node, set()).add(uid)

    def clear(self, uid: PodUid) -> None:
        """Note that all victims have left."""
        if room := self._rooms.get(uid):
            room.clear = True

    def arrived(self, pod: Pod) -> None:
        """Note that another scheduler placed *pod*."""
        for uid in self._for.get(pod.node_name, ()):
            self._rooms[uid].taken_by[pod.uid] = pod

    def left(self, pod: Pod) -> None:
        """Note that *pod* is on its node no more."""
        for uid in self._for.get(pod.node_name, ()):
            self._rooms[uid].taken_by.pop(pod.uid, None)

    def suspect(self, uid: PodUid) -> FreedCapacity | None:
        """Return the room of a pod if others came there and nobody has to leave any more."""
        room = self._rooms.get(uid)
        return room if room is not None and room.clear and room.taken_by else None

    def decided(self, uid: PodUid, node: str) -> None:
        """Note which node a pod is bound to, if any: room elsewhere, that is clear, is given up."""
        room = self._rooms.get(uid)
        if room is not None and room.clear and room.node != node:
            self.forget(uid)

    def forget(self, uid: PodUid) -> None:
        """Note that a pod needs its room no more."""
        room = self._rooms.pop(uid, None)
        if room is not None:
            there = self._for[room.node]
            there.discard(uid)
            if not there:
                del self._for[room.node]

    def vanished(self, node: str) -> None:
        """Note that there is no room on a node that is no more."""
        for uid in tuple(self._for.get(node, ())):
            self.forget(uid)
