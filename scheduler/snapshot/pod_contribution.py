"""What each pod contributes to a column, for what-ifs that add or remove it.

The true columns are updated with every pod that is added or removed (``columns``). A what-if adds
what its few added and removed pods contribute: there is one function for each column here. It must
return exactly what ``ClusterColumns`` adds for the same pod.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from scheduler.model.affinity_terms import AffinityTerm
from scheduler.model.host_ports import HostPort, ports_conflict
from scheduler.model.pod import Pod
from scheduler.snapshot.pod_sets import PodSet

Counted = PodSet | AffinityTerm
"""Which pods are counted: those that match, or those that have an affinity term."""


class Contribution(NamedTuple):
    """What each pod contributes to one column.

    Args:
        key: Identifies the column. *of* depends on it and on each pod alone, so that sums can be
            cached under the key.
        of: Returns the contribution of each of some pods.
    """

    key: Hashable
    of: Callable[[Sequence[Pod]], list[int]]


def _one_each(pods: Sequence[Pod]) -> list[int]:
    return [1] * len(pods)


ONE_EACH: Final = Contribution("pods", _one_each)
"""The column of the number of pods."""


@lru_cache(maxsize=128)
def requested(resource: str) -> Contribution:
    """Return how much of *resource* pods request; malformed pods request nothing.

    Their row is closed to other pods instead, since nobody can tell how much they take.
    """
    return Contribution(
        ("requested", resource),
        lambda pods: [0 if pod.malformed else pod.placed_requests.get(resource, 0) for pod in pods],
    )


@lru_cache(maxsize=8)
def nonzero_requested(resource: str) -> Contribution:
    """Return how much cpu or memory pods count for in scores, with defaults."""
    return Contribution(
        ("nonzero requested", resource),
        lambda pods: [
            0 if pod.malformed else pod.nonzero_requests.get(resource, 0) for pod in pods
        ],
    )


def conflicting(wanted: Sequence[HostPort]) -> Contribution:
    """Return how many pairs of pods' host ports and *wanted* ones conflict."""
    return Contribution(("ports", *wanted), lambda pods: [_conflicts(pod, wanted) for pod in pods])


def mounting(claim: str) -> Contribution:
    """Return how many volumes of pods use the claim ``namespace/name``."""
    return Contribution(("claim", claim), lambda pods: [_mounts(pod, claim) for pod in pods])


def counting(counted: Counted) -> Contribution:
    """Return how often each pod counts for *counted*."""
    if isinstance(counted, AffinityTerm):
        return Contribution(
            counted,
            lambda pods: [pod.affinity_terms.of(counted.kind).count(counted) for pod in pods],
        )
    # Pods of one template are equal in all that a PodSet reads: it judges one of them.
    known: dict[Hashable, bool] = {}

    def is_counted(pod: Pod) -> bool:
        kind = pod.namespace, pod.label_set, pod.terminating
        answer = known.get(kind)
        if answer is None:
            answer = known[kind] = counted.holds(pod)
        return answer

    return Contribution(counted, lambda pods: list(map(is_counted, pods)))


def _conflicts(pod: Pod, wanted: Sequence[HostPort]) -> int:
    if pod.malformed:
        return 0
    return sum(ports_conflict(port, used) for used in pod.host_ports for port in wanted)


def _mounts(pod: Pod, claim: str) -> int:
    return sum(each.key == claim for each in pod.claims if not each.generated)
