"""A binding attempt: one pod on its way from a decision to being bound."""

from dataclasses import dataclass, field
from typing import Any

from scheduler.framework.decision import Bind
from scheduler.framework.effects import Assume
from scheduler.framework.profile import Profile
from scheduler.kube.extenders import Extenders
from scheduler.model.pod import Pod
from scheduler.queue.queued_pod import QueuedPod


@dataclass(slots=True, eq=False)
class BindingAttempt:
    """A pod that is assumed on a node.

    Args:
        queued: The pod as it was popped, with its history.
        profile: The profile whose plugins chose the node; a reload does not change it.
        pod: The pod as assumed, with its node.
        started: When the attempt began; monotonic seconds.
        extenders: Those that were configured then, of which one may bind the pod.
        annotations: What plugins add to the binding.
        undo: Path and body of the patches that take back what pre-bind did, the latest last.
        assumed: Objects assumed in the cache until the watch confirms them, the latest last.
        must_wait: Whether a plugin acts or waits before the pod is bound.
        cancelled: Why the pod must not be bound after all; empty while it may.
        is_over: Whether the pod is bound, or its reservations are released.
    """

    queued: QueuedPod
    profile: Profile
    pod: Pod
    decision: Bind
    started: float
    extenders: Extenders
    annotations: dict[str, str] = field(default_factory=dict)
    undo: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    assumed: list[Assume] = field(default_factory=list)
    must_wait: bool = False
    cancelled: str = ""
    is_over: bool = False

    @property
    def node(self) -> str:
        """The node that the decision chose."""
        return self.decision.node

    def end(self) -> None:
        """Note that the attempt is over: a second release would free what another pod uses."""
        assert not self.is_over, f"the binding of {self.pod.key} to {self.node} ended twice"
        self.is_over = True
