"""The objects beside nodes and pods: owners, services, namespaces, budgets, volumes.

An object can be *assumed*: the version that a plugin is about to write then replaces the API
server's version, until the watch delivers any version, or the assumption is restored. Otherwise the
next pod would choose the same volume before the first one's binding is seen.

Source: ``plugins/volumebinding/passive_assume_cache.go``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from scheduler.model.fact import KubeObject, Resource, ResourceName
from scheduler.model.objects import CustomObject, Namespace, Owned, PodDisruptionBudget, Service
from scheduler.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.model.trust import NODE_DISTRUST, Distrust
from scheduler.snapshot.change_log import ChangeLog, Reads

_ObjectKey = tuple[ResourceName, str, str]
"""Resource, namespace and name."""

_OWNERS = {
    ("v1", "ReplicationController"): Resource.REPLICATION_CONTROLLER,
    ("apps/v1", "ReplicaSet"): Resource.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Resource.STATEFUL_SET,
}


ChangeHandler = Callable[[ResourceName, KubeObject | None, KubeObject | None], None]
"""Called with the old and the new version of an object; None for no object."""


class ClusterObjects:
    """Objects by kind, namespace and name; the cache writes them, and plugins read them."""

    def __init__(self) -> None:
        self._kinds: dict[ResourceName, dict[str, dict[str, KubeObject]]] = {}
        # The API server's versions of assumed objects.
        self._api_versions: dict[_ObjectKey, KubeObject] = {}
        self._by_class: dict[str, dict[str, PersistentVolume]] = {}
        self._handlers: list[ChangeHandler] = [self._classify]
        # By kind: most kinds change without any effect on most answers.
        self._changes: dict[ResourceName, ChangeLog] = {}
        self.reads: Reads | None = None

    def on_change(self, handler: ChangeHandler) -> None:
        """Call *handler* for every object that is added, changed or removed from now on."""
        self._handlers.append(handler)

    def _read(self, resource: ResourceName) -> None:
        """Note that objects of a kind are read, if reads are recorded."""
        if self.reads is not None:
            changes = self._changes.get(resource)
            if changes is None:
                changes = self._changes[resource] = ChangeLog()
            self.reads.setdefault(changes, changes.position)

    def _note(self, resource: ResourceName) -> None:
        """Note that an object of a kind has changed."""
        changes = self._changes.get(resource)
        if changes is not None:
            changes.note_all()

    def put(self, resource: ResourceName, item: KubeObject) -> None:
        """Store the newest version of *item*; an assumption about it ends."""
        self._note(resource)
        self._api_versions.pop(_key_of(resource, item), None)
        self._set(resource, item)

    def drop(self, resource: ResourceName, item: KubeObject) -> None:
        """Remove *item*; an assumption about it ends."""
        self._note(resource)
        self._api_versions.pop(_key_of(resource, item), None)
        namespaces = self._kinds.get(resource, {})
        names = namespaces.get(item.metadata.namespace, {})
        old = names.pop(item.metadata.name, None)
        if not names:
            namespaces.pop(item.metadata.namespace, None)
        if old is not None:
            self._call_handlers(resource, old, None)

    def assume(self, resource: ResourceName, item: KubeObject) -> bool:
        """Let *item* replace the API server's version; False if that has changed meanwhile.

        Only the version that *item* was derived from may be replaced: in a newer one the volume may
        be taken. The write would fail for the same reason, but only after a round trip.
        """
        known = self.api_version(resource, item.metadata.namespace, item.metadata.name)
        if known is None or known.metadata.resource_version != item.metadata.resource_version:
            return False
        self._note(resource)
        self._api_versions[_key_of(resource, item)] = known
        self._set(resource, item)
        return True

    def restore(self, resource: ResourceName, item: KubeObject) -> None:
        """Undo the assumption of *item*, unless the watch or another assumption replaced it."""
        if self.get(resource, item.metadata.namespace, item.metadata.name) is item:
            self._note(resource)
            known = self._api_versions.pop(_key_of(resource, item), None)
            if known is not None:
                self._set(resource, known)

    def api_version(self, resource: ResourceName, namespace: str, name: str) -> KubeObject | None:
        """Return one object as the API server has it, whatever is assumed about it."""
        self._read(resource)
        found = self._api_versions.get((resource, namespace, name))
        return self.get(resource, namespace, name) if found is None else found

    def _set(self, resource: ResourceName, item: KubeObject) -> None:
        names = self._kinds.setdefault(resource, {}).setdefault(item.metadata.namespace, {})
        old = names.get(item.metadata.name)
        names[item.metadata.name] = item
        self._call_handlers(resource, old, item)

    def _call_handlers(
        self, resource: ResourceName, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        for handler in self._handlers:
            handler(resource, old, new)

    def _classify(self, _: ResourceName, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(old, PersistentVolume):
            volumes = self._by_class[old.class_name]
            del volumes[old.name]
            if not volumes:
                del self._by_class[old.class_name]
        if isinstance(new, PersistentVolume):
            self._by_class.setdefault(new.class_name, {})[new.name] = new

    def get(self, resource: ResourceName, namespace: str, name: str) -> KubeObject | None:
        """Return one object, if it is known."""
        self._read(resource)
        return self._kinds.get(resource, {}).get(namespace, {}).get(name)

    def all(self, resource: ResourceName) -> Iterator[KubeObject]:
        """Yield every object of a kind."""
        self._read(resource)
        for names in self._kinds.get(resource, {}).values():
            yield from names.values()

    def within(self, resource: ResourceName, namespace: str) -> Collection[KubeObject]:
        """Return the objects of a kind in *namespace*."""
        self._read(resource)
        return self._kinds.get(resource, {}).get(namespace, {}).values()

    def custom(self, resource: str, namespace: str = "") -> Mapping[str, CustomObject]:
        """Return the objects of a custom resource by name; a plugin must name it in ``needs``.

        Args:
            resource: Plural, version and group, as in ``nodemetrics.v1beta1.metrics.k8s.io``.
            namespace: Where to look; empty for resources that have no namespaces.
        """
        self._read(resource)
        found = self._kinds.get(resource, {}).get(namespace, {})
        return {name: item for name, item in found.items() if isinstance(item, CustomObject)}

    def services(self, namespace: str) -> Iterator[Service]:
        """Yield the services of *namespace*."""
        for item in self.within(Resource.SERVICE, namespace):
            assert isinstance(item, Service)
            yield item

    def budgets(self, namespace: str) -> Iterator[PodDisruptionBudget]:
        """Yield the disruption budgets of *namespace*."""
        for item in self.within(Resource.POD_DISRUPTION_BUDGET, namespace):
            assert isinstance(item, PodDisruptionBudget)
            yield item

    def owner(self, api_version: str, kind: str, namespace: str, name: str) -> Owned | None:
        """Return a controller of pods; None if it is unknown, or not of a kind in `_OWNERS`."""
        resource = _OWNERS.get((api_version, kind))
        found = self.get(resource, namespace, name) if resource else None
        assert found is None or isinstance(found, Owned)
        return found

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Return the labels of a namespace; none if it is unknown."""
        found = self.get(Resource.NAMESPACE, "", name)
        return found.metadata.labels if isinstance(found, Namespace) else {}

    def distrusts(self, owner: str) -> Collection[Distrust]:
        """Return the nodes that are distrusted for pods of *owner* (see `owner_of`)."""
        return [x for x in self.within(NODE_DISTRUST, owner) if isinstance(x, Distrust)]

    # Volumes.

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim."""
        found = self.get(Resource.PERSISTENT_VOLUME_CLAIM, namespace, name)
        return found if isinstance(found, PersistentVolumeClaim) else None

    def api_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim as the API server has it."""
        found = self.api_version(Resource.PERSISTENT_VOLUME_CLAIM, namespace, name)
        return found if isinstance(found, PersistentVolumeClaim) else None

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume."""
        found = self.get(Resource.PERSISTENT_VOLUME, "", name)
        return found if isinstance(found, PersistentVolume) else None

    def api_volume(self, name: str) -> PersistentVolume | None:
        """Return a volume as the API server has it."""
        found = self.api_version(Resource.PERSISTENT_VOLUME, "", name)
        return found if isinstance(found, PersistentVolume) else None

    def volumes_of_class(self, name: str) -> Collection[PersistentVolume]:
        """Return the volumes of a storage class; those without one are the class ""."""
        self._read(Resource.PERSISTENT_VOLUME)
        return self._by_class.get(name, {}).values()

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""
        found = self.get(Resource.STORAGE_CLASS, "", name)
        return found if isinstance(found, StorageClass) else None

    def csi_node(self, name: str) -> CsiNode | None:
        """Return the CSINode of a node."""
        found = self.get(Resource.CSI_NODE, "", name)
        return found if isinstance(found, CsiNode) else None

    def csi_nodes(self) -> Iterator[CsiNode]:
        """Yield all CSINodes."""
        return (item for item in self.all(Resource.CSI_NODE) if isinstance(item, CsiNode))

    def csi_driver(self, name: str) -> CsiDriver | None:
        """Return a CSI driver."""
        found = self.get(Resource.CSI_DRIVER, "", name)
        return found if isinstance(found, CsiDriver) else None

    def storage_capacities(self) -> Iterator[CsiStorageCapacity]:
        """Yield all CSIStorageCapacities."""
        for item in self.all(Resource.CSI_STORAGE_CAPACITY):
            assert isinstance(item, CsiStorageCapacity)
            yield item


def _key_of(resource: ResourceName, item: KubeObject) -> _ObjectKey:
    return resource, item.metadata.namespace, item.metadata.name
