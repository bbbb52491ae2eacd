"""Pods of higher priority go first.

Source: ``plugins/queuesort/priority_sort.go``.
"""

from scheduler.model.pod import Pod


class PrioritySort:
    """Orders the queue by priority; the queue itself breaks ties by time of arrival."""

    name = "PrioritySort"

    def sort_key(self, pod: Pod) -> int:
        """Return a key that is smaller for a pod of higher priority."""
        return -pod.priority
