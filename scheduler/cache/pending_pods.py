"""Pods without a node: the newest version of each, ours and those of other schedulers.

Pods of other schedulers are kept as well, since the next configuration may have a profile for them.
"""

from collections.abc import Collection, Iterable

from scheduler.model.pod import Pod


class PendingPods:
    """The newest version of every pending pod, by namespace and name.

    Args:
        ours: The scheduler names that our profiles have.
    """

    def __init__(self, ours: Iterable[str]) -> None:
        self._ours = set(ours)
        self._pods: dict[str, Pod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def is_ours(self, pod: Pod) -> bool:
        """Tell whether one of our profiles has the pod's scheduler name."""
        return pod.spec.scheduler_name in self._ours

    def newest(self, pod: Pod) -> Pod | None:
        """Return the newest version of *pod*, or its successor of the same name."""
        return self._pods.get(pod.key)

    def is_waiting(self, pod: Pod) -> bool:
        """Tell whether *pod* still exists, unbound and not being deleted."""
        newest = self._pods.get(pod.key)
        return newest is not None and newest.uid == pod.uid and not newest.terminating

    def put(self, pod: Pod) -> None:
        """Remember a new or newer version of a pending pod."""
        assert not pod.node_name, f"{pod.key} is on {pod.node_name}, so it is not pending"
        self._pods[pod.key] = pod

    def drop(self, pod: Pod) -> None:
        """Forget a pod that is bound or gone; a successor of the same name stays."""
        known = self._pods.get(pod.key)
        if known is not None and known.uid == pod.uid:
            del self._pods[pod.key]

    def add_names(self, names: Collection[str]) -> list[Pod]:
        """Count pods of these scheduler *names* among ours, and return those that are pending."""
        self._ours.update(names)
        return self._pods_of(names)

    def remove_names(self, names: Collection[str]) -> list[Pod]:
        """Count pods of these scheduler *names* as others', and return those that are pending."""
        self._ours.difference_update(names)
        return self._pods_of(names)

    def _pods_of(self, names: Collection[str]) -> list[Pod]:
        if not names:
            return []
        return [pod for pod in self._pods.values() if pod.spec.scheduler_name in names]
