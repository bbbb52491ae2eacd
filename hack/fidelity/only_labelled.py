"""The plugin that comes with the oracle, a second time: both sides have to be asked the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.framework.rejection import Only, Skip

if TYPE_CHECKING:
    from scheduler.model.pod import Pod
    from scheduler.snapshot.node_table import NodeTable

LABEL: Final = "only"


class OnlyLabelled:
    """Narrows a pod to the nodes that its label names, joined by underscores."""

    name = "OnlyLabelled"

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Only | Skip:  # noqa: ARG002
        """Name those nodes; of a pod without the label say nothing."""
        label = pod.labels.get(LABEL)
        if label is None:
            return Skip()
        return Only(frozenset(label.split("_")) - {""})
