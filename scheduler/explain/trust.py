"""What the owner of a pod holds against nodes, as far as a picture tells.

Pods that kubelets refused stay in the cluster for a while, and say why. What the running scheduler
knows beyond that, preemptions that others undid, no picture shows.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cache.trust_ledger import TrustLedger
from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.pod import Pod
from scheduler.model.trust import kubelet_rejection, owner_of, rejected_at


def remember(
    cache: ClusterCache, refused: Iterable[Pod], ours: Collection[str], now: float
) -> TrustLedger:
    """Put into *cache* what follows *now*, seconds since 1970, from pods that were refused."""
    ledger = TrustLedger()
    dated = ((rejected_at(pod), pod) for pod in refused if pod.spec.scheduler_name in ours)
    known = sorted(((at, pod) for at, pod in dated if at is not None), key=lambda each: each[0])
    for at, pod in known:
        _apply(cache, ledger.pass_time(at))
        _apply(cache, ledger.broken(owner_of(pod), pod.node_name, kubelet_rejection(pod), at))
    _apply(cache, ledger.pass_time(now))
    return ledger


def told(cache: ClusterCache, ledger: TrustLedger, pod: Pod, now: float) -> Iterator[str]:
    """Say how long the owner of *pod* keeps away from which nodes."""
    owner = owner_of(pod)
    for each in sorted(cache.view().objects.distrusts(owner), key=lambda each: each.node):
        until = ledger.until(owner, each.node)
        how = "one at a time" if until is None else f"not before {_written(until)}"
        yield (
            f"as of {_written(now)}, pods of the same owner go to {each.node} {how}: it {each.why}"
        )


def _apply(cache: ClusterCache, changes: Iterable[Added | Updated | Deleted]) -> None:
    for change in changes:
        if isinstance(change, Deleted):
            cache.drop(change.resource, change.old)
        else:
            cache.put(change.resource, change.new)


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
