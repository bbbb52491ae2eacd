"""The part of DynamicResources that concerns pods without resource claims.

Nothing here allocates devices: UnsupportedFeatures rejects pods with claims. But upstream's plugin
is in every default profile and adds to the message of every unschedulable pod. People and tools
compare those messages, so they are the same here.

Source: ``plugins/dynamicresources/dynamicresources.go`` (PostFilter).
"""

from typing import Final

from scheduler.config.plugin_args import DynamicResourcesArgs
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin import FilterQuestion
from scheduler.framework.rejection import Refusal, Skip
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

NOTHING_TO_DEALLOCATE: Final = "no new claims to deallocate"
NOT_FOUND: Final = "not found"


class DynamicResources:
    """Answers PostFilter that there are no claims to deallocate."""

    name = "DynamicResources"
    node_local = True

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        """Accept upstream's arguments: a timeout for work that is not done here."""

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip:  # noqa: ARG002
        """Skip the pod; `post_filter` depends on whether this was called."""
        return Skip()

    def post_filter(
        self,
        pod: Pod,  # noqa: ARG002 - pods with claims never come this far
        nodes: NodeTable,  # noqa: ARG002
        diagnosis: Diagnosis,
        ask: FilterQuestion,  # noqa: ARG002
    ) -> Refusal:
        """Return that there is nothing to deallocate for *pod*.

        If an earlier plugin rejected the pod in PreFilter, upstream's plugin does not find its
        CycleState and fails with "not found", so preemption is not tried.
        """
        if self.name in diagnosis.unasked:
            return Refusal(NOT_FOUND, stop=True)
        return Refusal(NOTHING_TO_DEALLOCATE)
