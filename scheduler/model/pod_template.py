"""What pods of one template have in common: kept once for all of them, and only while one is left.

Pods of a workload differ in name, UID, times, node and status, and in nothing else that is read.
So a decoded pod is compared with those that are known, by a digest of everything else. It takes
over their labels, owners and spec, and all values that are derived from them. Tables refer to
templates and parts weakly: they hold what live pods use, and nothing that depends on the past.

Pods of a StatefulSet or DaemonSet have templates of their own, because claims, labels or affinity
contain their name or node. They still share the parts that are equal, such as containers.
"""

from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import force_setattr

from scheduler.model.affinity import Affinity, PodAffinity
from scheduler.model.affinity_terms import PodAffinityTerms, reading_terms
from scheduler.model.host_ports import HostPort, host_ports_of
from scheduler.model.meta import Condition, ObjectMeta, OwnerReference
from scheduler.model.pieces import PIECE_ENTRIES, finish
from scheduler.model.pod_requests import (
    INFEASIBLE,
    PLACED,
    REQUESTED,
    RESIZE_PENDING,
    SCORED,
    is_infeasible,
    is_resized,
    nonzero_requests_of,
    requests_of,
)
from scheduler.model.pod_spec import PodSpec, PodStatus
from scheduler.model.resources import Amounts
from scheduler.model.selectors import compile_selector, compiling
from scheduler.model.taints import Toleration
from scheduler.model.volumes import PodClaim, Volume

P = TypeVar("P")
T = TypeVar("T")

_DIGEST_BYTES: Final = 16
_SPEC_FIELDS: Final = tuple(
    name for name in PodSpec.__struct_fields__ if name not in {"node_name", "volumes"}
)
_spec_values = attrgetter(*_SPEC_FIELDS)
_encode = msgspec.msgpack.Encoder().encode
_NOT_RESIZED: Final = PodStatus()

# Not `sys.intern`: Python 3.12 never frees what it interned.
_COMMON_TEXTS: Final = {
    text: text
    for text in (
        *("PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready"),
        *("DisruptionTarget", RESIZE_PENDING, "PodResizeInProgress"),
        *("True", "False", "Unknown", "Pending", "Running", "Unschedulable", "SchedulingGated"),
        *("ContainersNotReady", "ContainersNotInitialized", "PodCompleted"),
    )
}
"""What pods' conditions usually say: those of a hundred thousand pods refer to one text each."""


class Demand:
    """The containers of a pod, and what follows from them and from an in-place resize.

    Args:
        spec: Only what the requests depend on.
        status: Only what the requests depend on.
    """

    def __init__(self, spec: PodSpec, status: PodStatus) -> None:
        self.spec = spec
        self.status = status

    @cached_property
    def requests(self) -> Amounts:
        """See `Pod.requests`."""
        return requests_of(self.spec, self.status, REQUESTED)

    @cached_property
    def placed_requests(self) -> Amounts:
        """See `Pod.placed_requests`."""
        if is_resized(self.status):
            return requests_of(self.spec, self.status, PLACED)
        return self.requests

    @cached_property
    def nonzero_requests(self) -> Amounts:
        """See `Pod.nonzero_requests`."""
        return nonzero_requests_of(self.spec, self.status, self.placed_requests)

    @cached_property
    def scored_requests(self) -> Amounts:
        """See `Pod.scored_requests`."""
        return requests_of(self.spec, self.status, SCORED)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """See `Pod.host_ports`."""
        sidecars = (each for each in self.spec.init_containers if each.sidecar)
        return tuple(host_ports_of((*sidecars, *self.spec.containers)))


class _Part(Generic[T]):
    """A value that several templates share.

    Args:
        value: It must not be changed.
    """

    def __init__(self, value: T) -> None:
        self.value = value


class _Labels(_Part[dict[str, str]]):
    """The labels of a pod."""

    @cached_property
    def label_set(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.value.items())


class _Owners(_Part[tuple[OwnerReference, ...]]):
    """The owners of a pod."""


class _Tolerations(_Part[tuple[Toleration, ...]]):
    """The tolerations of a pod."""


class _Affinity(_Part[Affinity | None]):
    """The affinity of a pod in a namespace, and its compiled terms."""

    def __init__(self, value: Affinity | None, namespace: str) -> None:
        super().__init__(value)
        self._namespace = namespace

    @cached_property
    def terms(self) -> PodAffinityTerms:
        return finish(self.reading())

    def reading(self) -> Generator[None, None, PodAffinityTerms]:
        if "terms" not in self.__dict__:
            # Not set before it is complete: another pod of the template may come meanwhile.
            self.__dict__["terms"] = yield from reading_terms(self.value, self._namespace)
        return self.terms


class PodTemplate:
    """Everything about a pod but identity, times, node and status.

    Args:
        key: A digest of all that follows: pods have equal keys if and only if all this is equal.
        metadata: Of one of the pods.
        spec: Of one of the pods, without volumes that nothing reads.
        status: What the requests depend on, of one of the pods.
        name: The pod's name, if it is in the names of its generated claims.
    """

    def __init__(
        self, key: bytes, metadata: ObjectMeta, spec: PodSpec, status: PodStatus, name: str
    ) -> None:
        self.key = key
        self.namespace = metadata.namespace
        self.annotations = metadata.annotations
        self._name = name
        self._checked = False
        self._labels = _shared(_Labels, metadata.labels)
        self._owners = _shared(_Owners, metadata.owner_references)
        self._tolerations = _shared(_Tolerations, spec.tolerations)
        # Terms about pods are equal in a StatefulSet. An affinity to nodes alone is usually that of
        # a DaemonSet's pod, and names its node: no other pod has it.
        among_pods = spec.affinity is not None and (
            spec.affinity.pod_affinity is not None or spec.affinity.pod_anti_affinity is not None
        )
        self._affinity = (
            _shared(_Affinity, spec.affinity, self.namespace)
            if among_pods
            else _Affinity(spec.affinity, self.namespace)
        )
        self.demand = _demand_of(spec, status)
        self.spec = copy(spec)
        for part in (
            ("node_name", ""),
            ("tolerations", self._tolerations.value),
            ("affinity", self._affinity.value),
            ("containers", self.demand.spec.containers),
            ("init_containers", self.demand.spec.init_containers),
        ):
            force_setattr(self.spec, *part)

    @property
    def labels(self) -> dict[str, str]:
        """The pods' labels."""
        return self._labels.value

    @property
    def label_set(self) -> frozenset[tuple[str, str]]:
        """The labels as a hashable value."""
        return self._labels.label_set

    @property
    def owner_references(self) -> tuple[OwnerReference, ...]:
        """The pods' owners."""
        return self._owners.value

    @property
    def affinity_terms(self) -> PodAffinityTerms:
        """See `Pod.affinity_terms`."""
        return self._affinity.terms

    @cached_property
    def storage(self) -> tuple[Volume, ...]:
        """See `Pod.storage`."""
        return tuple(volume for volume in self.spec.volumes if volume.is_storage)

    @cached_property
    def claims(self) -> tuple[PodClaim, ...]:
        """See `Pod.claims`."""
        return tuple(self._claims())

    def spec_on(self, node: str) -> PodSpec:
        """Return the spec of a pod on *node*; pods without a node share one."""
        if not node:
            return self.spec
        spec = copy(self.spec)
        force_setattr(spec, "node_name", node)
        return spec

    def share_status(self, status: PodStatus, created: str | None) -> None:
        """Replace parts of a decoded pod's *status* by equal ones of other pods."""
        if status.container_statuses or status.init_container_statuses:
            sized = self.demand.status
            force_setattr(status, "container_statuses", sized.container_statuses)
            force_setattr(status, "init_container_statuses", sized.init_container_statuses)
        # A pod that runs has five conditions and two or three different times.
        times = {created: created}
        force_setattr(status, "phase", _COMMON_TEXTS.get(status.phase, status.phase))
        force_setattr(status, "start_time", times.setdefault(status.start_time, status.start_time))
        for each in status.conditions:
            time = each.last_transition_time
            force_setattr(each, "type", _COMMON_TEXTS.get(each.type, each.type))
            force_setattr(each, "status", _COMMON_TEXTS.get(each.status, each.status))
            force_setattr(each, "reason", _COMMON_TEXTS.get(each.reason, each.reason))
            force_setattr(each, "last_transition_time", times.setdefault(time, time))

    def check(self) -> None:
        """Read all quantities and label selectors, once for all pods of the template.

        Raises:
            MalformedObject: If one cannot be read.
        """
        finish(self.checking())

    def checking(self) -> Generator[None, None, None]:
        """Do what `check` does, in pieces; afterwards it has nothing left to do.

        Raises:
            MalformedObject: If a quantity or a label selector cannot be read.
        """
        if self._checked:
            return
        _ = self.demand.placed_requests, self.demand.requests
        yield
        for index, constraint in enumerate(self.spec.topology_spread_constraints):
            if index % PIECE_ENTRIES == 0:
                yield
            yield from compiling(
                constraint.label_selector, f"spec.topologySpreadConstraints[{index}].labelSelector"
            )
        # The terms are compiled once for all that follows, and only invalid ones again: for a path.
        if self.spec.affinity is not None and (yield from self._affinity.reading()).problem:
            _check_terms(self.spec.affinity.pod_affinity, "spec.affinity.podAffinity")
            _check_terms(self.spec.affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity")
        self._checked = True

    def _claims(self) -> Iterator[PodClaim]:
        for volume in self.storage:
            if volume.persistent_volume_claim is not None:
                yield PodClaim(self.namespace, volume.persistent_volume_claim.claim_name)
            elif volume.ephemeral is not None:
                yield PodClaim(self.namespace, f"{self._name}-{volume.name}", generated=True)


_templates: Final[WeakValueDictionary[bytes, PodTemplate]] = WeakValueDictionary()
_parts: Final[WeakValueDictionary[bytes, Any]] = WeakValueDictionary()


def template_of(metadata: ObjectMeta, spec: PodSpec, status: PodStatus) -> PodTemplate:
    """Return the template of a pod: one object for all live pods that have it."""
    volumes = spec.volumes
    name = ""
    if volumes:
        # The others are nothing but names, which the API server makes up: no two pods agree.
        volumes = tuple(each for each in volumes if each.is_read)
        if any(each.ephemeral is not None for each in volumes):
            name = metadata.name
    sized = _size_of(status)
    key = _digest(
        metadata.namespace,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        volumes,
        name,
        sized if sized is not _NOT_RESIZED else None,
        *_spec_values(spec),
    )
    found = _templates.get(key)
    if found is None:
        if len(volumes) != len(spec.volumes):
            spec = msgspec.structs.replace(spec, volumes=volumes)
        found = _templates[key] = PodTemplate(key, metadata, spec, sized, name)
    return found


def sizes() -> dict[str, int]:
    """Count what the tables hold: they grow and shrink with the live pods."""
    return {"templates": len(_templates), "parts": len(_parts)}


def _size_of(status: PodStatus) -> PodStatus:
    """Return what the requests of a pod depend on: what its kubelet allocated and actuated."""
    if not is_resized(status):
        return _NOT_RESIZED
    infeasible = (Condition(type=RESIZE_PENDING, reason=INFEASIBLE),)
    return PodStatus(
        conditions=infeasible if is_infeasible(status) else (),
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


def _demand_of(spec: PodSpec, status: PodStatus) -> Demand:
    needed = PodSpec(
        containers=spec.containers,
        init_containers=spec.init_containers,
        overhead=spec.overhead,
        resources=spec.resources,
    )
    return _shared(Demand, needed, status)


def _shared(kind: Callable[..., P], *content: Any) -> P:
    """Return the part of *kind* with *content*: one object for all live templates that have it."""
    key = _digest(kind.__qualname__, *content)
    found: P | None = _parts.get(key)
    if found is None:
        found = _parts[key] = kind(*content)
    return found


def _digest(*content: Any) -> bytes:
    try:
        encoded = _encode(content)
    except OverflowError:
        # A number beyond 64 bits, in a malformed object.
        encoded = repr(content).encode()
    # A digest and not the content: a pod may have half a megabyte of it.
    return blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


def _check_terms(affinity: PodAffinity | None, field: str) -> None:
    if affinity is None:
        return
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = [
        (f"{required}[{index}]", term)
        for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution)
    ]
    terms += [
        (f"{preferred}[{index}].podAffinityTerm", weighted.pod_affinity_term)
        for index, weighted in enumerate(
            affinity.preferred_during_scheduling_ignored_during_execution
        )
    ]
    for path, term in terms:
        compile_selector(term.label_selector, f"{field}.{path}.labelSelector")
        compile_selector(term.namespace_selector, f"{field}.{path}.namespaceSelector")
