"""How far the watch of pods is behind, measured by our own bindings.

No event says when it was made to less than a second, and a bookmark not at all. A binding does:
from its answer on, the API server has the pod on its node, and what the watch has not delivered by
then is not known to decisions.
"""

from collections.abc import Callable

from scheduler.model.meta import PodUid
from scheduler.observe import families
from scheduler.observe.metrics import Metrics


class WatchLag:
    """Bindings that were answered, and that the watch has not confirmed yet.

    Args:
        metrics: Receives the lag of each binding.
        is_assumed: Tells whether a pod, by its UID, is still assumed: once its binding is confirmed
            it is not, nor once it was deleted.
    """

    def __init__(self, metrics: Metrics, is_assumed: Callable[[PodUid], bool]) -> None:
        self._metrics = metrics
        self._is_assumed = is_assumed
        self._answered: dict[PodUid, float] = {}

    def answered(self, uid: PodUid, now: float) -> None:
        """The API server answered that a pod is bound."""
        if self._is_assumed(uid):
            self._answered[uid] = now
        else:
            self._metrics.observe(families.WATCH_LAG, 0.0)  # the watch was faster than the answer

    def confirmed(self, uid: PodUid, now: float) -> None:
        """The watch delivered a pod with a node, whoever bound it."""
        answered = self._answered.pop(uid, None)
        if answered is not None:
            self._metrics.observe(families.WATCH_LAG, now - answered)

    def oldest(self, now: float) -> float:
        """Return the seconds since the oldest binding that is not confirmed; 0 without one."""
        while self._answered:
            uid, answered = next(iter(self._answered.items()))
            if self._is_assumed(uid):
                return now - answered
            # The pod was deleted, and its deletion arrived without the binding.
            del self._answered[uid]
        return 0.0
