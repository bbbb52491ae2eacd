"""What DynamicResources tells of pods without resource claims; claims themselves are refused.

Nothing here allocates devices: pods with claims are turned away by UnsupportedFeatures. Upstream's
plugin stands in every default profile, though, and has a word in the message of every pod that fits
nowhere. People and tools compare those messages, so the word is said here too.

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
    """Has no claims to deallocate, and says so."""

    name = "DynamicResources"

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        """Take upstream's arguments, which time what is not done here."""

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip:  # noqa: ARG002
        """Say nothing; what counts is whether the plugin is asked at all."""
        return Skip()

    def post_filter(
        self,
        pod: Pod,  # noqa: ARG002 - pods with claims never come this far
        nodes: NodeTable,  # noqa: ARG002
        diagnosis: Diagnosis,
        ask: FilterQuestion,  # noqa: ARG002
    ) -> Refusal:
        """Say that there is nothing to give up for *pod*.

        Where an earlier plugin refused every node before this one was asked, upstream's misses
        what it would have prepared, fails with that text, and preemption is not tried.
        """
        if self.name in diagnosis.unasked:
            return Refusal(NOT_FOUND, stop=True)
        return Refusal(NOTHING_TO_DEALLOCATE)
