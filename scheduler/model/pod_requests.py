"""The resource requests of a pod, in each of the sums that upstream computes.

Source: ``component-helpers/resource/helpers.go`` and ``pkg/scheduler/framework/types.go``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.model import quantity
from scheduler.model.containers import Container, ContainerStatus
from scheduler.model.meta import Struct
from scheduler.model.pod_spec import PodSpec, PodStatus
from scheduler.model.resources import (
    CPU,
    MEMORY,
    Amounts,
    Nanos,
    add,
    parse_quantities,
    raise_to,
    to_amounts,
)

# Upstream: DefaultMilliCPURequest and DefaultMemoryRequest. Without them, a node full of pods
# without requests would score like an empty one.
_DEFAULTS: Final = {
    CPU: 100 * quantity.NANOS_PER_MILLI,
    MEMORY: 200 * 1024 * 1024 * quantity.NANOS,
}
"""How much a container without a request counts for in scores."""

RESIZE_PENDING: Final = "PodResizePending"
"""The condition of a pod whose in-place resize the kubelet has not begun."""
INFEASIBLE: Final = "Infeasible"
"""Its reason if the kubelet never will."""


class Accounting(Struct, frozen=True):
    """Selects one of the sums.

    Args:
        from_status: Count what the kubelet actuated or allocated if it is more than the spec says
            (in-place resize, KEP-1287).
        pod_level: Let ``spec.resources`` of the pod replace the sum over its containers.
        defaults: Add a default for each container that requests no cpu or no memory.
    """

    from_status: bool = False
    pod_level: bool = True
    defaults: bool = False


REQUESTED: Final = Accounting()
PLACED: Final = Accounting(from_status=True)
SCORED: Final = Accounting(pod_level=False, defaults=True)
_PLACED_WITH_DEFAULTS: Final = Accounting(from_status=True, defaults=True)
_CONTAINERS_WITH_DEFAULTS: Final = Accounting(from_status=True, pod_level=False, defaults=True)


def requests_of(spec: PodSpec, status: PodStatus, accounting: Accounting) -> Amounts:
    """Sum what a pod requests, its overhead included.

    Raises:
        MalformedObject: If a quantity cannot be read.
    """
    statuses: dict[str, ContainerStatus] = {}
    infeasible = False
    if accounting.from_status:
        infeasible = is_infeasible(status)
        found = (*status.container_statuses, *status.init_container_statuses)
        statuses = {each.name: each for each in found}
    total = _sum_containers(spec, statuses, infeasible, accounting.defaults)
    if accounting.pod_level:
        _apply_pod_level(total, spec, status if accounting.from_status else None, infeasible)
    add(total, parse_quantities(spec.overhead, "spec.overhead"))
    return to_amounts(total)


def nonzero_requests_of(spec: PodSpec, status: PodStatus, placed: Amounts) -> Amounts:
    """Return *placed*, the sum PLACED, with defaults for cpu and memory as upstream adds them."""
    if spec.resources is None or not _supported_at_pod_level(spec.resources.requests):
        return requests_of(spec, status, _PLACED_WITH_DEFAULTS)
    # With requests at pod level, a default counts only for a resource that the sum lacks.
    amounts = dict(placed)
    containers = requests_of(spec, status, _CONTAINERS_WITH_DEFAULTS)
    for name in (CPU, MEMORY):
        if name not in amounts and name in containers:
            amounts[name] = containers[name]
    return amounts


def is_resized(status: PodStatus) -> bool:
    """Tell whether the status has actuated resources: then PLACED may differ from REQUESTED."""
    if status.resources is not None:
        return True
    # No generator: this runs for every event of a pod.
    for each in status.container_statuses:
        if each.resources is not None:
            return True
    return any(each.resources is not None for each in status.init_container_statuses)


def is_infeasible(status: PodStatus) -> bool:
    """Tell whether the kubelet can never resize the pod to its current spec."""
    condition = status.condition(RESIZE_PENDING)
    return condition is not None and condition.reason == INFEASIBLE


def _sum_containers(
    spec: PodSpec, statuses: Mapping[str, ContainerStatus], infeasible: bool, defaults: bool
) -> Nanos:
    """Sum the containers' requests: the larger of all running at once and each init step.

    An init container runs together with the sidecars started before it (KEP-753); all sidecars run
    together with the containers.
    """
    total: Nanos = {}
    sidecars: Nanos = {}
    peak: Nanos = {}
    for index, container in enumerate(spec.containers):
        field = f"spec.containers[{index}].resources.requests"
        status = statuses.get(container.name)
        add(total, _effective(container, status, infeasible, defaults, field))
    for index, container in enumerate(spec.init_containers):
        field = f"spec.initContainers[{index}].resources.requests"
        status = statuses.get(container.name) if container.sidecar else None
        need = _effective(container, status, infeasible, defaults, field)
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
    status: ContainerStatus | None,
    infeasible: bool,
    defaults: bool,
    field: str,
) -> Nanos:
    need = parse_quantities(container.resources.requests, field)
    if status is not None and status.resources is not None:
        # A resize that can never happen must not block capacity: only the status counts then.
        if infeasible:
            need = {}
        raise_to(need, parse_quantities(status.resources.requests, f"status of {container.name}"))
        raise_to(need, parse_quantities(status.allocated_resources, f"status of {container.name}"))
    if defaults:
        for name, default in _DEFAULTS.items():
            need.setdefault(name, default)
    return need


def _apply_pod_level(
    total: Nanos, spec: PodSpec, status: PodStatus | None, infeasible: bool
) -> None:
    """Replace sums over the containers by requests at pod level (KEP-2837)."""
    if spec.resources is None:
        return
    wanted = parse_quantities(spec.resources.requests, "spec.resources.requests")
    names = _supported_at_pod_level(wanted)
    if status is not None and status.resources is not None:
        if infeasible:
            wanted = {}
        raise_to(wanted, parse_quantities(status.resources.requests, "status.resources"))
        raise_to(wanted, parse_quantities(status.allocated_resources, "status.allocated"))
    total.update({name: wanted[name] for name in names if name in wanted})


def _supported_at_pod_level(names: Iterable[str]) -> list[str]:
    """Return those of *names* that a pod may request as a whole."""
    return [name for name in names if name in {CPU, MEMORY} or name.startswith("hugepages-")]
