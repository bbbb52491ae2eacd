"""What is watched: one row for each resource.

To watch another kind, give it a struct in scheduler.model, a name in Resource and a row here.
Custom resources need neither: a plugin that needs one names it, and it is watched as it is.
"""

import re
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from scheduler.model.fact import KubeObject, Resource, ResourceName
from scheduler.model.node import Node
from scheduler.model.objects import (
    CustomObject,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from scheduler.model.pod import Pod
from scheduler.model.selectors import compile_selector, compiling
from scheduler.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

T = TypeVar("T", bound=KubeObject)


def _unchecked(_: KubeObject) -> None:
    """Check nothing: decoding has read everything already."""


def _unprepared(_: KubeObject) -> Generator[None, None, None]:
    """Prepare nothing: an object of the kind is checked in no time, whatever its size."""
    yield from ()


def _unshared(_: KubeObject) -> None:
    """Share nothing: there are few objects of the kind, or they have little in common."""


@dataclass(frozen=True, slots=True)
class Watched(Generic[T]):
    """A resource, and how its objects are read.

    Args:
        resource: The name in facts.
        path: Where the API server lists it, in all namespaces.
        kind: The struct that holds one object.
        check: Reads what decoding left unread; raises MalformedObject.
        prepare: Does the same in pieces, for a large object, so that ``check`` has nothing left.
        share: Replaces parts of an object by equal ones of other objects, to save memory.
        field_selector: Selects the objects at the server; empty for all.
        optional: Scheduling goes on where the server has no such resource or forbids it.
        annotations: Whether annotations are kept: they are large, and only some plugins read them.
        raw: Whether each object's JSON is kept as it came, for an extender that wants it whole.
        every_version: Whether a new version is a fact even if nothing else has changed. Needed for
            objects that we write, since a write names the version that it replaces.
    """

    resource: ResourceName
    path: str
    kind: type[T]
    check: Callable[[T], None] = _unchecked
    prepare: Callable[[T], Generator[None, None, None]] = _unprepared
    share: Callable[[T], None] = _unshared
    field_selector: str = ""
    optional: bool = False
    annotations: bool = False
    raw: bool = False
    every_version: bool = False

    @property
    def params(self) -> Mapping[str, str]:
        """The query parameters that select its objects."""
        return {"fieldSelector": self.field_selector} if self.field_selector else {}

    def also(self, other: "Watched[T]") -> "Watched[T]":
        """Return this row, keeping what *other* keeps as well."""
        return replace(
            self, annotations=self.annotations or other.annotations, raw=self.raw or other.raw
        )

    def with_annotations(self) -> "Watched[T]":
        """Return this row, for a plugin that reads annotations."""
        return replace(self, annotations=True)

    def with_raw(self) -> "Watched[T]":
        """Return this row, for an extender that is sent whole objects."""
        return replace(self, raw=True)


def _check_selector(workload: ReplicaSet | StatefulSet | PodDisruptionBudget) -> None:
    compile_selector(workload.spec.selector, "spec.selector")


def _prepare_selector(
    workload: ReplicaSet | StatefulSet | PodDisruptionBudget,
) -> Generator[None, None, None]:
    yield from compiling(workload.spec.selector, "spec.selector")


PODS: Final = Watched(
    Resource.POD,
    "/api/v1/pods",
    Pod,
    check=Pod.check,
    prepare=Pod.prepare,
    share=Pod.share,
    field_selector="status.phase!=Succeeded,status.phase!=Failed",
)
# A pod that a kubelet rejects becomes Failed. The watch above sends that as a deletion, with the
# object as it was before; only this watch sends the status with the kubelet's reason.
FAILED_PODS: Final = Watched(
    Resource.FAILED_POD,
    "/api/v1/pods",
    Pod,
    check=Pod.check,
    prepare=Pod.prepare,
    share=Pod.share,
    field_selector="status.phase=Failed",
)
NODES: Final = Watched(Resource.NODE, "/api/v1/nodes", Node, check=Node.check, share=Node.share)
NAMESPACES: Final = Watched(Resource.NAMESPACE, "/api/v1/namespaces", Namespace)
SERVICES: Final = Watched(Resource.SERVICE, "/api/v1/services", Service, optional=True)
REPLICATION_CONTROLLERS: Final = Watched(
    Resource.REPLICATION_CONTROLLER,
    "/api/v1/replicationcontrollers",
    ReplicationController,
    optional=True,
)
REPLICA_SETS: Final = Watched(
    Resource.REPLICA_SET,
    "/apis/apps/v1/replicasets",
    ReplicaSet,
    check=_check_selector,
    prepare=_prepare_selector,
    optional=True,
)
STATEFUL_SETS: Final = Watched(
    Resource.STATEFUL_SET,
    "/apis/apps/v1/statefulsets",
    StatefulSet,
    check=_check_selector,
    prepare=_prepare_selector,
    optional=True,
)
PRIORITY_CLASSES: Final = Watched(
    Resource.PRIORITY_CLASS, "/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass
)
POD_DISRUPTION_BUDGETS: Final = Watched(
    Resource.POD_DISRUPTION_BUDGET,
    "/apis/policy/v1/poddisruptionbudgets",
    PodDisruptionBudget,
    check=_check_selector,
    prepare=_prepare_selector,
)
PERSISTENT_VOLUME_CLAIMS: Final = Watched(
    Resource.PERSISTENT_VOLUME_CLAIM,
    "/api/v1/persistentvolumeclaims",
    PersistentVolumeClaim,
    check=PersistentVolumeClaim.check,
    annotations=True,
    every_version=True,
)
PERSISTENT_VOLUMES: Final = Watched(
    Resource.PERSISTENT_VOLUME,
    "/api/v1/persistentvolumes",
    PersistentVolume,
    check=PersistentVolume.check,
    annotations=True,
    every_version=True,
)
STORAGE_CLASSES: Final = Watched(
    Resource.STORAGE_CLASS, "/apis/storage.k8s.io/v1/storageclasses", StorageClass
)
CSI_NODES: Final = Watched(
    Resource.CSI_NODE, "/apis/storage.k8s.io/v1/csinodes", CsiNode, annotations=True
)
CSI_DRIVERS: Final = Watched(Resource.CSI_DRIVER, "/apis/storage.k8s.io/v1/csidrivers", CsiDriver)
CSI_STORAGE_CAPACITIES: Final = Watched(
    Resource.CSI_STORAGE_CAPACITY,
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    CsiStorageCapacity,
    check=CsiStorageCapacity.check,
)
VOLUME_ATTACHMENTS: Final = Watched(
    Resource.VOLUME_ATTACHMENT, "/apis/storage.k8s.io/v1/volumeattachments", VolumeAttachment
)

WATCHED: Final[Mapping[Resource, Watched[Any]]] = {
    Resource(row.resource): row
    for row in (
        PODS,
        FAILED_PODS,
        NODES,
        NAMESPACES,
        SERVICES,
        REPLICATION_CONTROLLERS,
        REPLICA_SETS,
        STATEFUL_SETS,
        PRIORITY_CLASSES,
        POD_DISRUPTION_BUDGETS,
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
        VOLUME_ATTACHMENTS,
    )
}
"""Every resource that can be watched, by its name in facts."""

NODE_ANNOTATIONS: Final = "node.annotations"
POD_ANNOTATIONS: Final = "pod.annotations"
_ANNOTATED: Final = {Resource.POD: POD_ANNOTATIONS, Resource.NODE: NODE_ANNOTATIONS}
_ALWAYS: Final = (Resource.POD, Resource.FAILED_POD, Resource.NODE)
_CUSTOM: Final = re.compile(
    r"(?P<plural>[a-z][a-z0-9-]*)\.(?P<version>v[0-9][a-z0-9]*)\.(?P<group>[a-z0-9-]+(\.[a-z0-9-]+)*)"
)


def is_known(need: str) -> bool:
    """Tell whether a plugin may write *need* into its ``needs``."""
    return need in WATCHED or need in _ANNOTATED.values() or _CUSTOM.fullmatch(need) is not None


def custom(name: ResourceName) -> Watched[CustomObject]:
    """Return how to watch the custom resource *name*: ``<plural>.<version>.<group>``."""
    found = _CUSTOM.fullmatch(name)
    assert found is not None, f"{name} is no custom resource"
    path = f"/apis/{found['group']}/{found['version']}/{found['plural']}"
    # Optional: the CRD may not be installed, and an aggregated API may be down.
    return Watched(name, path, CustomObject, optional=True, annotations=True)


def resource_for(name: str) -> Watched[Any]:
    """Return how to reach the resource *name*, one of ours or a custom one."""
    return WATCHED[Resource(name)] if name in WATCHED else custom(name)


def watched_for(needs: Collection[str]) -> tuple[Watched[Any], ...]:
    """Return what has to be watched where plugins have *needs*: pods and nodes first."""
    others = [name for name in WATCHED if name in needs and name not in _ALWAYS]
    customs = sorted(need for need in needs if _CUSTOM.fullmatch(need))
    return (
        *(_with_annotations(WATCHED[name], needs) for name in (*_ALWAYS, *others)),
        *(custom(name) for name in customs),
    )


def _with_annotations(watched: Watched[Any], needs: Collection[str]) -> Watched[Any]:
    """Keep annotations if a plugin needs them."""
    need = _ANNOTATED.get(Resource(watched.resource))
    return watched.with_annotations() if need in needs else watched
