"""Rebuilds the trust in nodes (see `cache.trust_ledger`) from the cluster's state.

Pods that kubelets rejected stay in the cluster for a while, with the reason. The running scheduler
also distrusts a node when other schedulers take freed capacity; no object records that, so it is
missing here.

How long a node is avoided is computed from wall-clock time here, although the scheduler uses a
monotonic clock for durations: only the times that the API server wrote into the pods are known.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cache.trust_ledger import TrustLedger
from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.pod import Pod
from scheduler.model.trust import kubelet_rejection, owner_of, rejected_at


def rebuild_ledger(
    cache: ClusterCache, rejected: Iterable[Pod], ours: Collection[str], now: float
) -> TrustLedger:
    """Write into *cache* which nodes are avoided *now*, in Unix seconds, after *rejected* pods."""
    ledger = TrustLedger()
    dated = ((rejected_at(pod), pod) for pod in rejected if pod.spec.scheduler_name in ours)
    known = sorted(((at, pod) for at, pod in dated if at is not None), key=lambda each: each[0])
    for at, pod in known:
        _apply(cache, ledger.expire(at))
        _apply(cache, ledger.ban(owner_of(pod), pod.node_name, kubelet_rejection(pod), at))
    _apply(cache, ledger.expire(now))
    return ledger


def notes(cache: ClusterCache, ledger: TrustLedger, pod: Pod, now: float) -> Iterator[str]:
    """Yield a sentence for each node that pods of *pod*'s owner avoid, and until when."""
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
