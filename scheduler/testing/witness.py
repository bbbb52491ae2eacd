"""Who has seen everything: what a scheduler was told and posted, and what must be true of that.

A `Witness` accompanies one life of a scheduler. It keeps its own record of the facts that were
applied, with none of the scheduler's code, and holds cache, queue and requests against it.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from scheduler.errors import ApiError, Conflict, NotFound, Rejected
from scheduler.loop.assembly import Core
from scheduler.model.fact import Added, Deleted, Fact, Resource, Updated
from scheduler.model.meta import PodUid
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.queue.place import Place

_DECIDED: Final = frozenset({None, Place.IN_FLIGHT})
"""Where the queue may have a pod that is bound: nowhere, or with whoever waits for its permit."""


class Witness:
    """What one life of a scheduler knows.

    Args:
        ours: The name of the scheduler.
        effective: UID and node of every binding by this scheduler that took effect.
    """

    def __init__(self, ours: str, effective: "set[tuple[str, str]]") -> None:
        self._ours = ours
        self._effective = effective
        self.pods: dict[PodUid, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self._late: dict[PodUid, Pod] = {}
        self.posted: dict[PodUid, tuple[str, Pod]] = {}
        """Where pods were posted to, until their fate was told."""
        self.decided: set[tuple[str, str]] = set()
        """UID and node of every binding that was posted."""

    def hear(self, fact: Fact) -> None:
        """Note a fact that the scheduler applies now."""
        match fact:
            case Added(Resource.POD, Pod() as pod) | Updated(Resource.POD, _, Pod() as pod):
                self.pods[pod.uid] = pod
                if pod.node_name:
                    self.posted.pop(pod.uid, None)
            case Deleted(Resource.POD, Pod() as pod):
                self.pods.pop(pod.uid, None)
                self._late[pod.uid] = pod
                self.posted.pop(pod.uid, None)
            case Added(Resource.NODE, Node() as node) | Updated(Resource.NODE, _, Node() as node):
                self.nodes[node.name] = node
            case Deleted(Resource.NODE, Node() as node):
                self.nodes.pop(node.name, None)
            case _:
                pass

    # Requests.

    def posting(self, key: str, uid: PodUid, name: str) -> None:
        """Judge a binding that is about to be posted, for the pod *key*, to the node *name*."""
        pod = self.pods.get(uid) if uid else self._of_key(key)
        if pod is None:
            return  # its end was told between decision and request
        self.decided.add((pod.uid, name))
        if pod.node_name or pod.terminating:
            return  # it is known to be decided, and the server says so
        earlier = self.posted.get(pod.uid)
        if earlier is not None:
            was = earlier[0]
            assert was == name or (pod.uid, was) not in self._effective, (
                f"{key} is posted to {name}, although it was posted to {was} before and is there"
            )
        if (pod.uid, name) not in self._effective:
            self._check_fit(pod, name)
        self.posted[pod.uid] = name, pod

    def answered(self, uid: PodUid, error: ApiError) -> None:
        """Note that a posted binding failed: whoever was refused is not on the way any more."""
        refused = isinstance(error, Conflict | NotFound | Rejected)
        if uid in self.posted and refused and (uid, self.posted[uid][0]) not in self._effective:
            del self.posted[uid]

    def deleting(self, key: str, uid: PodUid) -> None:
        """Judge the deletion of the pod *key* that is about to be asked for."""
        assert uid, f"{key} is deleted whoever it is"
        victim = self.pods.get(uid)
        if victim is None:
            return  # its end was told between decision and request
        # One that is gone or bound by now may have been the reason: it was not long ago.
        assert any(
            pod.priority > victim.priority
            for pod in (*self.pods.values(), *self._late.values())
            if pod.spec.scheduler_name == self._ours
        ), f"{key} has to go, and nobody more important waits"

    def _of_key(self, key: str) -> Pod | None:
        return next((pod for pod in self.pods.values() if pod.key == key), None)

    def _check_fit(self, pod: Pod, name: str) -> None:
        """Assert that *pod* fits beside everything that is known to be on the node."""
        node = self.nodes.get(name)
        assert node is not None, f"{pod.key} is posted to {name}, which is known to be gone"
        known = {each.uid: each for each in self.pods.values() if each.node_name == name}
        for uid, (where, other) in self.posted.items():
            if where == name and (uid, where) in self._effective:
                known[uid] = other
        known[pod.uid] = pod
        for resource, amount in pod.requests.items():
            wanted = sum(each.requests.get(resource, 0) for each in known.values())
            there = node.allocatable.get(resource, 0)
            assert not amount or wanted <= there, (
                f"{pod.key} over-commits {name}: {wanted} {resource} of {there}, "
                f"beside {', '.join(sorted(each.key for each in known.values()))}"
            )
        assert len(known) <= node.allowed_pods, f"{pod.key} is one pod too many for {name}"

    # After every step.

    def check(self, core: Core) -> None:
        """Assert that nobody is lost, forgotten, or kept without being there."""
        for uid, pod in self.pods.items():
            placed = core.cache.pod(uid)
            if pod.node_name:
                assert placed is not None, f"{pod.key} is bound and not counted"
                assert placed.node_name == pod.node_name, f"{pod.key} is counted elsewhere"
                place = core.queue.place_of(uid)
                assert place in _DECIDED, f"{pod.key} waits although it is bound"
            elif self._is_waiting(pod):
                assert placed or core.queue.place_of(uid), f"{pod.key} ({uid}) is lost"
        for queued in core.queue:
            assert self._is_pending(queued.pod.uid), f"waits although gone: {queued.tell()}"
        for pod in core.evictions.preemptors:
            here = self._is_pending(pod.uid)
            assert here, f"room is made for {pod.key} although it is gone or bound"
        for node, pods in core.queue.nominator.by_node().items():
            for pod in pods:
                here = self._is_pending(pod.uid)
                assert here, f"{pod.key} is nominated to {node} although it is gone or bound"

    def check_at_rest(self, core: Core) -> None:
        """Assert that nothing is under way any more."""
        assert core.binding.in_flight == 0, "a binding never ended"
        assert core.evictions.in_flight == 0, "an eviction never ended"
        assumed = sorted(pod.key for pod in core.cache.assumed())
        assert not assumed, f"assumed forever: {', '.join(assumed)}"
        assert core.queue.in_flight_counts()["PodPopped"] == 0, "in flight forever"
        bound = {uid for uid, pod in self.pods.items() if pod.node_name}
        assert core.cache.sizes()["pods"] == len(bound), "pods are counted that are gone"

    def _is_pending(self, uid: PodUid) -> bool:
        return uid in self.pods and not self.pods[uid].node_name

    def _is_waiting(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name == self._ours and not pod.terminating


class Journal:
    """What happened, in order, so that a run can be told and compared with its replay."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, str, str]] = []

    def note(self, now: float, subject: str, text: str) -> None:
        """Note what happened to *subject*: a pod, a node, or the scheduler."""
        self._lines.append((now, subject, text))

    def __iter__(self) -> Any:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def story_of(self, subjects: Iterable[str], most: int = 60) -> str:
        """Tell what happened to *subjects*, one line each."""
        wanted = set(subjects)
        lines = [
            f"  {now:9.3f}s  {subject:<12} {text}"
            for now, subject, text in self._lines
            if subject in wanted
        ]
        return "\n".join(lines[-most:])

    def counts(self) -> dict[str, int]:
        """Count the lines by their first word."""
        found: dict[str, int] = defaultdict(int)
        for _, _, text in self._lines:
            found[text.partition(" ")[0]] += 1
        return dict(found)
