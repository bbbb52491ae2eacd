"""Taints and tolerations.

Source: ``api/core/v1/toleration.go``; the operators Lt and Gt are behind a gate that is off, so
they never match.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.model.meta import Struct

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
DO_NOT_SCHEDULE: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""Effects that keep pods away; the third only asks."""


class Taint(Struct, frozen=True):
    """A mark on a node that repels pods."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True):
    """A pod's answer to a taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration covers *taint*; an empty key or effect covers any."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", "Equal"}:
            return self.value == taint.value
        return self.operator == "Exists"


UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""What a cordoned node is taken to carry; only ``spec.unschedulable`` itself counts."""


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether any of *tolerations* covers *taint*."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: Iterable[str]
) -> Taint | None:
    """Return the first of *taints* with one of *effects* that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerated(taint, tolerations):
            return taint
    return None
