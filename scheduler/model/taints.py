"""Taints and tolerations.

Source: ``api/core/v1/toleration.go``. The operators Lt and Gt need a feature gate that is off by
default, so they never match.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from scheduler.model.meta import Struct

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
DO_NOT_SCHEDULE: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""The effects that reject pods; the third, PreferNoSchedule, only lowers scores."""
_FEW: Final = 16
"""So many tolerations are compared one by one."""


class Taint(Struct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether this toleration matches *taint*; an empty key or effect matches any."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"", "Equal"}:
            return self.value == taint.value
        return self.operator == "Exists"


UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint that a pod has to tolerate to run on a cordoned node.

Whether a node is cordoned follows from ``spec.unschedulable``, not from this taint.
"""


def tolerated_by(tolerations: Sequence[Toleration]) -> Callable[[Taint], bool]:
    """Return a function that tells whether any of *tolerations* matches a taint."""
    if len(tolerations) <= _FEW:
        return lambda taint: any(toleration.tolerates(taint) for toleration in tolerations)
    # A pod may have thousands of tolerations, and a cluster as many different taints.
    known = {
        (each.key, None if each.operator == "Exists" else each.value, each.effect)
        for each in tolerations
        if each.operator in {"", "Equal", "Exists"}
    }

    def is_tolerated(taint: Taint) -> bool:
        return any(
            (key, value, effect) in known
            for key in (taint.key, "")
            for value in (taint.value, None)
            for effect in (taint.effect, "")
        )

    return is_tolerated


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Tell whether any of *tolerations* matches *taint*."""
    return tolerated_by(tolerations)(taint)


def first_untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Container[str]
) -> Taint | None:
    """Return the first of *taints* with one of *effects* that no toleration matches."""
    return first_of(taints, tolerated_by(tolerations), effects)


def first_of(
    taints: Iterable[Taint], is_tolerated: Callable[[Taint], bool], effects: Container[str]
) -> Taint | None:
    """Return the first of *taints* with one of *effects* that is not tolerated."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint):
            return taint
    return None
