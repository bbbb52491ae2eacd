"""Resources: their names, and amounts of them.

Amounts are plain integers: milli-cpu for ``cpu``, bytes or units for everything else. They are
summed exactly, in nanos, and rounded once at the end.

Source: ``component-helpers/resource/helpers.go`` and ``pkg/scheduler/framework/types.go``.
"""

import re
from collections.abc import Mapping
from typing import Final

from scheduler.errors import MalformedObject
from scheduler.model import quantity
from scheduler.model.meta import Struct

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

Amounts = dict[str, int]
"""Integer amounts by resource name; cpu in milli."""

QuantityMap = dict[str, str | int | float | None]

Nanos = dict[str, int]
"""Exact amounts by resource name, in billionths of a core, a byte or a unit."""

_QUALIFIED_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)"
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    re.ASCII,
)


class ResourceRequirements(Struct, frozen=True):
    """Requests of a container or of a whole pod; of limits only the names are read."""

    requests: QuantityMap = {}
    limits: QuantityMap = {}


def is_extended(name: str) -> bool:
    """Tell whether *name* is an extended resource, as in ``example.com/gpu``."""
    # Upstream validates the name with the prefix that resource quotas put before it
    # (IsExtendedResourceName), hence "requests.".
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return len(name) <= 63 + 253 and _QUALIFIED_NAME.fullmatch("requests." + name) is not None


def is_scalar(name: str) -> bool:
    """Tell whether *name* is a scalar resource: not cpu, memory or ephemeral storage."""
    return (
        is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def parse_quantities(literals: Mapping[str, str | float | None], field: str) -> Nanos:
    """Parse *literals* into nanos.

    Raises:
        MalformedObject: If one is no quantity; the path begins with *field*.
    """
    # The path is built only for the error: this runs for every container of every pod.
    try:
        return {name: quantity.nanos(literal) for name, literal in literals.items()}
    except ValueError:
        for name, literal in literals.items():
            try:
                quantity.nanos(literal)
            except ValueError as problem:
                raise MalformedObject(f"{field}[{name}]", str(problem)) from None
        raise


def to_amounts(nanos: Nanos) -> Amounts:
    """Round exact sums to the amounts that the scheduler compares; unknown names are dropped."""
    amounts: Amounts = {}
    for name, count in nanos.items():
        if name == CPU:
            amounts[name] = quantity.millis(count)
        elif name in {MEMORY, EPHEMERAL_STORAGE} or is_scalar(name):
            amounts[name] = quantity.units(count)
    return amounts


def add(total: Nanos, more: Nanos) -> None:
    """Add *more* to *total*, in place."""
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def raise_to(total: Nanos, floor: Nanos) -> None:
    """Raise each of *total* to at least *floor*, in place; names that it lacks are added."""
    for name, count in floor.items():
        if count > total.get(name, -1):
            total[name] = count
