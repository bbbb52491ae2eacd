"""What pods are worth: how much each counts in a column, where a what-if adds or removes it.

The true columns follow the pods that come and go (``columns``). A what-if corrects them by the few
pods that it adds and removes; how much each of those counts stands here, one function a column.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from scheduler.model.affinity_terms import AffinityTerm
from scheduler.model.host_ports import HostPort, ports_conflict
from scheduler.model.pod import Pod
from scheduler.snapshot.pod_sets import PodSet

Counted = PodSet | AffinityTerm
"""Pods that are counted: those that match, or those that carry an affinity term."""


class Contribution(NamedTuple):
    """How much each pod counts in one column.

    Args:
        key: Names the column: *of* depends on it and on each pod alone, so sums are kept under it.
        of: What each of some pods counts.
    """

    key: Hashable
    of: Callable[[Sequence[Pod]], list[int]]


def _one_each(pods: Sequence[Pod]) -> list[int]:
    return [1] * len(pods)


ONE_EACH: Final = Contribution("pods", _one_each)
"""How many pods there are."""


@lru_cache(maxsize=128)
def requested(resource: str) -> Contribution:
    """Return what pods request of *resource*; those that cannot be read request nothing."""
    return Contribution(
        ("requested", resource),
        lambda pods: [0 if pod.malformed else pod.placed_requests.get(resource, 0) for pod in pods],
    )


@lru_cache(maxsize=8)
def nonzero_requested(resource: str) -> Contribution:
    """Return what scores take pods to use of *resource*: cpu or memory, with defaults."""
    return Contribution(
        ("nonzero requested", resource),
        lambda pods: [
            0 if pod.malformed else pod.nonzero_requests.get(resource, 0) for pod in pods
        ],
    )


def conflicting(wanted: Sequence[HostPort]) -> Contribution:
    """Return in how many ways the host ports of pods stand in the way of *wanted*."""
    return Contribution(("ports", *wanted), lambda pods: [_conflicts(pod, wanted) for pod in pods])


def mounting(claim: str) -> Contribution:
    """Return how many volumes of pods are the claim ``namespace/name``."""
    return Contribution(("claim", claim), lambda pods: [_mounts(pod, claim) for pod in pods])


def counting(counted: Counted) -> Contribution:
    """Return how often pods are among *counted*; whole templates of pods are told apart once."""
    if isinstance(counted, AffinityTerm):
        return Contribution(
            counted,
            lambda pods: [pod.affinity_terms.of(counted.kind).count(counted) for pod in pods],
        )
    known: dict[Hashable, bool] = {}

    def holds(pod: Pod) -> bool:
        kind = pod.namespace, pod.label_set, pod.terminating
        answer = known.get(kind)
        if answer is None:
            answer = known[kind] = counted.holds(pod)
        return answer

    return Contribution(counted, lambda pods: list(map(holds, pods)))


def _conflicts(pod: Pod, wanted: Sequence[HostPort]) -> int:
    if pod.malformed:
        return 0
    return sum(ports_conflict(port, used) for used in pod.host_ports for port in wanted)


def _mounts(pod: Pod, claim: str) -> int:
    return sum(each.key == claim for each in pod.claims if not each.generated)
