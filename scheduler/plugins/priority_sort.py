"""Orders the queue by priority.

Source: ``plugins/queuesort/priority_sort.go``.
"""

from scheduler.model.pod import Pod


class PrioritySort:
    """Pops pods of higher priority first; the queue itself orders equal ones by time of arrival."""

    name = "PrioritySort"

    def sort_key(self, pod: Pod) -> int:
        """Return a key that is smaller for a pod of higher priority."""
        return -pod.priority
