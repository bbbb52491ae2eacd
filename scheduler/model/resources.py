"""How much a pod requests.

Amounts are plain integers: milli-cpu for ``cpu``, bytes or units for everything else. They are
summed exactly, in nanos, and rounded once at the end.

Source: ``component-helpers/resource/helpers.go`` and ``pkg/scheduler/framework/types.go``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.errors import MalformedObject
from scheduler.model import quantity
from scheduler.model.meta import Struct

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

DEFAULT_CPU_MILLI: Final = 100
DEFAULT_MEMORY_BYTES: Final = 200 * 1024 * 1024
_DEFAULTS: Final = {
    CPU: DEFAULT_CPU_MILLI * quantity.NANOS_PER_MILLI,
    MEMORY: DEFAULT_MEMORY_BYTES * quantity.NANOS,
}

Amounts = dict[str, int]
"""Integer amounts by resource name; cpu in milli."""

QuantityMap = dict[str, str | int | float | None]

_Nanos = dict[str, int]

_QUALIFIED_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)"
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    re.ASCII,
)


class ResourceRequirements(Struct, frozen=True):
    """Requests of a container, or of a whole pod; limits only tell which resources are named."""

    requests: QuantityMap = {}
    limits: QuantityMap = {}


class ContainerStatus(Struct, frozen=True):
    """What the kubelet actuated for a container (in-place resize)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap = {}


class ContainerPort(Struct, frozen=True):
    """A port of a container."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Struct, frozen=True):
    """What an exit of a container leads to."""

    action: str = ""


class Container(Struct, frozen=True):
    """A container, as far as scheduling reads it."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()

    @property
    def sidecar(self) -> bool:
        """Whether, as an init container, it keeps running beside the others."""
        return self.restart_policy == "Always"


def is_extended(name: str) -> bool:
    """Tell whether *name* is an extended resource, as in ``example.com/gpu``."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return len(name) <= 63 + 253 and _QUALIFIED_NAME.fullmatch("requests." + name) is not None


def is_scalar(name: str) -> bool:
    """Tell whether *name* counts as a resource beside cpu, memory and ephemeral storage."""
    return (
        is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def parse_quantities(literals: Mapping[str, str | float | None], field: str) -> _Nanos:
    """Parse *literals* into nanos.

    Raises:
        MalformedObject: If one is no quantity; the path begins with *field*.
    """
    try:
        return {name: quantity.nanos(literal) for name, literal in literals.items()}
    except ValueError:
        for name, literal in literals.items():
            try:
                quantity.nanos(literal)
            except ValueError as problem:
                raise MalformedObject(f"{field}[{name}]", str(problem)) from None
        raise


def to_amounts(nanos: _Nanos) -> Amounts:
    """Round exact sums to what the scheduler compares; names it does not know are dropped."""
    amounts: Amounts = {}
    for name, count in nanos.items():
        if name == CPU:
            amounts[name] = quantity.millis(count)
        elif name in {MEMORY, EPHEMERAL_STORAGE} or is_scalar(name):
            amounts[name] = quantity.units(count)
    return amounts


class Accounting(Struct, frozen=True):
    """Which of upstream's several sums is meant.

    Args:
        from_status: Count what the kubelet has actuated or allocated where it is more (in-place
            resize).
        pod_level: Let ``spec.resources`` of the pod replace the sum over its containers.
        defaults: Fill in a default where a container requests no cpu or no memory at all.
    """

    from_status: bool = False
    pod_level: bool = True
    defaults: bool = False

    def without_pod_level(self) -> "Accounting":
        """Return the same sum over containers alone."""
        return Accounting(from_status=self.from_status, pod_level=False, defaults=self.defaults)


def aggregate(
    containers: tuple[Container, ...],
    init_containers: tuple[Container, ...],
    statuses: Mapping[str, ContainerStatus],
    infeasible: bool,
    accounting: Accounting,
) -> _Nanos:
    """Sum what containers request: the larger of all running at once and each init step.

    A plain init container runs beside the sidecars started before it; every sidecar runs beside the
    containers.
    """
    total: _Nanos = {}
    sidecars: _Nanos = {}
    peak: _Nanos = {}
    for index, container in enumerate(containers):
        field = f"spec.containers[{index}].resources.requests"
        add(total, _effective(container, statuses, infeasible, accounting, field))
    for index, container in enumerate(init_containers):
        field = f"spec.initContainers[{index}].resources.requests"
        known = statuses if container.sidecar else {}
        need = _effective(container, known, infeasible, accounting, field)
        if container.sidecar:
            add(total, need)
            add(sidecars, need)
            raise_to(peak, sidecars)
        else:
            add(need, sidecars)
            raise_to(peak, need)
    raise_to(total, peak)
    return total


def _effective(
    container: Container,
    statuses: Mapping[str, ContainerStatus],
    infeasible: bool,
    accounting: Accounting,
    field: str,
) -> _Nanos:
    need = parse_quantities(container.resources.requests, field)
    status = statuses.get(container.name) if accounting.from_status else None
    if status is not None and status.resources is not None:
        if infeasible:
            need = {}
        raise_to(need, parse_quantities(status.resources.requests, f"status of {container.name}"))
        raise_to(need, parse_quantities(status.allocated_resources, f"status of {container.name}"))
    if accounting.defaults:
        for name, default in _DEFAULTS.items():
            need.setdefault(name, default)
    return need


def add(total: _Nanos, more: _Nanos) -> None:
    """Add *more* to *total*, in place."""
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def raise_to(total: _Nanos, floor: _Nanos) -> None:
    """Raise each of *total* to at least *floor*, in place; names are united."""
    for name, count in floor.items():
        if count > total.get(name, -1):
            total[name] = count


def supported_at_pod_level(names: Iterable[str]) -> list[str]:
    """Return those of *names* that a pod may request as a whole."""
    return [name for name in names if name in {CPU, MEMORY} or name.startswith("hugepages-")]
