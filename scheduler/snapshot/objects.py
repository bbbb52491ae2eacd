"""The small objects beside nodes and pods: owners, services, namespaces, budgets, volumes.

An object can be *assumed*: what we are about to write then stands in place of what was told, until
any version is told, or the assumption is taken back.

Source: ``plugins/volumebinding/passive_assume_cache.go``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from scheduler.model.fact import KubeObject, Resource, ResourceName
from scheduler.model.objects import CustomObject, Namespace, Owned, PodDisruptionBudget, Service
from scheduler.model.selectors import Selector
from scheduler.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.model.trust import NODE_DISTRUST, Distrust

_SELECTIONS_KEPT: Final = 256

_OWNERS = {
    ("v1", "ReplicationController"): Resource.REPLICATION_CONTROLLER,
    ("apps/v1", "ReplicaSet"): Resource.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Resource.STATEFUL_SET,
}


Listener = Callable[[ResourceName, KubeObject | None, KubeObject | None], None]
"""Hears which object was before and is now in one place; None for no object."""


class ClusterObjects:
    """Objects by kind, namespace and name. The cache writes, plugins read."""

    def __init__(self) -> None:
        self._kinds: dict[ResourceName, dict[str, dict[str, KubeObject]]] = {}
        self._selected: dict[Selector, frozenset[str]] = {}
        self._told: dict[tuple[ResourceName, str, str], KubeObject] = {}
        self._by_class: dict[str, dict[str, PersistentVolume]] = {}
        self._listeners: list[Listener] = [self._classify]

    def listen(self, listener: Listener) -> None:
        """Tell *listener* about every object that comes, changes or goes from now on."""
        self._listeners.append(listener)

    def put(self, resource: ResourceName, item: KubeObject) -> None:
        """Remember the newest version of *item*; an assumption about it ends."""
        self._changed(resource)
        self._told.pop(_place(resource, item), None)
        self._set(resource, item)

    def drop(self, resource: ResourceName, item: KubeObject) -> None:
        """Forget *item*; an assumption about it ends."""
        self._changed(resource)
        self._told.pop(_place(resource, item), None)
        namespaces = self._kinds.get(resource, {})
        names = namespaces.get(item.metadata.namespace, {})
        old = names.pop(item.metadata.name, None)
        if not names:
            namespaces.pop(item.metadata.namespace, None)
        if old is not None:
            self._tell(resource, old, None)

    def assume(self, resource: ResourceName, item: KubeObject) -> bool:
        """Let *item* stand for what was told; False where another version was told meanwhile."""
        told = self.told(resource, item.metadata.namespace, item.metadata.name)
        if told is None or told.metadata.resource_version != item.metadata.resource_version:
            return False
        self._told[_place(resource, item)] = told
        self._set(resource, item)
        return True

    def restore(self, resource: ResourceName, item: KubeObject) -> None:
        """Take the assumption of *item* back, if it still stands."""
        if self.get(resource, item.metadata.namespace, item.metadata.name) is item:
            told = self._told.pop(_place(resource, item), None)
            if told is not None:
                self._set(resource, told)

    def told(self, resource: ResourceName, namespace: str, name: str) -> KubeObject | None:
        """Return one object as it was told, whatever is assumed about it."""
        found = self._told.get((resource, namespace, name))
        return self.get(resource, namespace, name) if found is None else found

    def _set(self, resource: ResourceName, item: KubeObject) -> None:
        names = self._kinds.setdefault(resource, {}).setdefault(item.metadata.namespace, {})
        old = names.get(item.metadata.name)
        names[item.metadata.name] = item
        self._tell(resource, old, item)

    def _tell(self, resource: ResourceName, old: KubeObject | None, new: KubeObject | None) -> None:
        for listener in self._listeners:
            listener(resource, old, new)

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
        return self._kinds.get(resource, {}).get(namespace, {}).get(name)

    def all(self, resource: ResourceName) -> Iterator[KubeObject]:
        """Yield every object of a kind."""
        for names in self._kinds.get(resource, {}).values():
            yield from names.values()

    def within(self, resource: ResourceName, namespace: str) -> Collection[KubeObject]:
        """Return the objects of a kind in *namespace*."""
        return self._kinds.get(resource, {}).get(namespace, {}).values()

    def custom(self, resource: str, namespace: str = "") -> Mapping[str, CustomObject]:
        """Return the objects of a custom resource by name; some plugin must name it in ``needs``.

        Args:
            resource: Plural, version and group, as in ``nodemetrics.v1beta1.metrics.k8s.io``.
            namespace: Where to look; empty for resources that have no namespaces.
        """
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
        """Return a workload that owns pods, if its kind has a selector that counts."""
        resource = _OWNERS.get((api_version, kind))
        found = self.get(resource, namespace, name) if resource else None
        assert found is None or isinstance(found, Owned)
        return found

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Return the labels of a namespace; none where it is unknown."""
        found = self.get(Resource.NAMESPACE, "", name)
        return found.metadata.labels if isinstance(found, Namespace) else {}

    def namespaces(self, selector: Selector) -> frozenset[str]:
        """Return the names of the namespaces whose labels *selector* matches."""
        found = self._selected.get(selector)
        if found is None:
            found = self._selected[selector] = frozenset(
                each.metadata.name
                for each in self.all(Resource.NAMESPACE)
                if selector.matches(each.metadata.labels)
            )
            if len(self._selected) > _SELECTIONS_KEPT:
                del self._selected[next(iter(self._selected))]
        return found

    def _changed(self, resource: ResourceName) -> None:
        if resource == Resource.NAMESPACE:
            self._selected.clear()

    def distrusts(self, owner: str) -> Collection[Distrust]:
        """Return what pods of *owner*, as `owner_of` tells it, have against which nodes."""
        return [x for x in self.within(NODE_DISTRUST, owner) if isinstance(x, Distrust)]

    # Volumes.

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim."""
        found = self.get(Resource.PERSISTENT_VOLUME_CLAIM, namespace, name)
        return found if isinstance(found, PersistentVolumeClaim) else None

    def api_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim as the API server has it."""
        found = self.told(Resource.PERSISTENT_VOLUME_CLAIM, namespace, name)
        return found if isinstance(found, PersistentVolumeClaim) else None

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume."""
        found = self.get(Resource.PERSISTENT_VOLUME, "", name)
        return found if isinstance(found, PersistentVolume) else None

    def api_volume(self, name: str) -> PersistentVolume | None:
        """Return a volume as the API server has it."""
        found = self.told(Resource.PERSISTENT_VOLUME, "", name)
        return found if isinstance(found, PersistentVolume) else None

    def volumes_of_class(self, name: str) -> Collection[PersistentVolume]:
        """Return the volumes of a storage class; the empty name is a class, too."""
        return self._by_class.get(name, {}).values()

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""
        found = self.get(Resource.STORAGE_CLASS, "", name)
        return found if isinstance(found, StorageClass) else None

    def csi_node(self, name: str) -> CsiNode | None:
        """Return what is known about the drivers on a node."""
        found = self.get(Resource.CSI_NODE, "", name)
        return found if isinstance(found, CsiNode) else None

    def csi_nodes(self) -> Iterator[CsiNode]:
        """Yield what is known about the drivers on all nodes."""
        return (item for item in self.all(Resource.CSI_NODE) if isinstance(item, CsiNode))

    def csi_driver(self, name: str) -> CsiDriver | None:
        """Return a CSI driver."""
        found = self.get(Resource.CSI_DRIVER, "", name)
        return found if isinstance(found, CsiDriver) else None

    def storage_capacities(self) -> Iterator[CsiStorageCapacity]:
        """Yield how much drivers could still provision."""
        for item in self.all(Resource.CSI_STORAGE_CAPACITY):
            assert isinstance(item, CsiStorageCapacity)
            yield item


def _place(resource: ResourceName, item: KubeObject) -> tuple[ResourceName, str, str]:
    return resource, item.metadata.namespace, item.metadata.name
