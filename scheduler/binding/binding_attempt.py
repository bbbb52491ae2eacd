"""A placement: a pod on its way from a decision to being bound."""

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
        pod: The pod as assumed, with its node.
        started: When the attempt began; monotonic seconds.
        extenders: The extenders that were asked about it, of which one may bind it.
        undo: Patches that take back what pre-bind did, the latest last.
        will_wait: Whether something must be done or waited for before it is bound.
        assumed: What is taken for written until the watch tells, the latest last.
        called_off: Why it must not be bound after all; empty where it may.
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
    will_wait: bool = False
    cancelled: str = ""

    @property
    def node(self) -> str:
        """Where the pod is going."""
        return self.decision.node

    def owe(self, path: str, undo: dict[str, Any] | None) -> None:
        """Remember what takes a patch of *path* back."""
        if undo is not None:
            self.undo.append((path, undo))
