"""What each pod contributes to a column, for what-ifs that add or remove it.

The true columns are updated with every pod that is added or removed (``columns``). A what-if adds
what its few added and removed pods contribute: there is one function for each column here. It must
return exactly what ``ClusterColumns`` adds for the same pod.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from scheduler.model.host_ports import HostPort, ports_conflict
from scheduler.model.pod import Pod
from scheduler.model.pod_set import NamespaceLabels, PodSet, WeightedPods
from scheduler.snapshot.term_index import Incoming, TermIndex


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
    # By protocol and port: pods with thousands of ports each are not compared pairwise.
    by_port: dict[tuple[str, int], list[HostPort]] = {}
    for port in wanted:
        by_port.setdefault((port.protocol, port.port), []).append(port)
    return Contribution(("ports", *wanted), lambda pods: [_conflicts(pod, by_port) for pod in pods])


def mounting(claim: str) -> Contribution:
    """Return how many volumes of pods use the claim ``namespace/name``."""
    return Contribution(("claim", claim), lambda pods: [_mounts(pod, claim) for pod in pods])


def counting(counted: PodSet | WeightedPods, labels_of: NamespaceLabels) -> Contribution:
    """Return for how much each pod counts; *labels_of* returns the labels of its namespace."""
    # Pods of one template are equal in all that is read: one of them is judged.
    known: dict[Hashable, int] = {}

    def weight(pod: Pod) -> int:
        kind = pod.namespace, pod.label_set, pod.terminating
        answer = known.get(kind)
        if answer is None:
            answer = known[kind] = weigh(pod.namespace, pod.labels, pod.terminating, labels_of)
        return answer

    weigh = counted.matches if isinstance(counted, PodSet) else counted.weight
    return Contribution(counted, lambda pods: list(map(weight, pods)))


def of_terms(
    incoming: Pod, labels: Mapping[str, str], index: TermIndex, key: str, *, weighted: bool
) -> Contribution:
    """Return what each pod's terms about the topology *key* add up to that match *incoming*.

    *labels* are those of the incoming pod's namespace.
    """
    asked = Incoming(incoming.namespace, incoming.labels, labels)

    def sum_of(pod: Pod) -> int:
        if pod.spec.affinity is None:
            return 0
        return index.sums_of(pod.affinity_terms, asked, weighted=weighted).get(key, 0)

    known = "terms", index.kind, key, weighted, incoming.namespace, incoming.label_set
    return Contribution(known, lambda pods: list(map(sum_of, pods)))


def _conflicts(pod: Pod, wanted: Mapping[tuple[str, int], Sequence[HostPort]]) -> int:
    if pod.malformed:
        return 0
    return sum(
        ports_conflict(port, used)
        for used in pod.host_ports
        for port in wanted.get((used.protocol, used.port), ())
    )


def _mounts(pod: Pod, claim: str) -> int:
    return sum(each.key == claim for each in pod.claims if not each.generated)
