"""The small objects beside nodes and pods: owners, services, namespaces, budgets."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from scheduler.model.fact import KubeObject, Resource, ResourceName
from scheduler.model.objects import CustomObject, Namespace, Owned, PodDisruptionBudget, Service
from scheduler.model.selectors import Selector

_SELECTIONS_KEPT: Final = 256

_OWNERS = {
    ("v1", "ReplicationController"): Resource.REPLICATION_CONTROLLER,
    ("apps/v1", "ReplicaSet"): Resource.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Resource.STATEFUL_SET,
}


class ClusterObjects:
    """Objects by kind, namespace and name. The cache writes, plugins read."""

    def __init__(self) -> None:
        self._kinds: dict[ResourceName, dict[str, dict[str, KubeObject]]] = {}
        self._selected: dict[Selector, frozenset[str]] = {}

    def put(self, resource: ResourceName, item: KubeObject) -> None:
        """Remember the newest version of *item*."""
        self._changed(resource)
        namespaces = self._kinds.setdefault(resource, {})
        namespaces.setdefault(item.metadata.namespace, {})[item.metadata.name] = item

    def drop(self, resource: ResourceName, item: KubeObject) -> None:
        """Forget *item*."""
        self._changed(resource)
        namespaces = self._kinds.get(resource, {})
        names = namespaces.get(item.metadata.namespace, {})
        names.pop(item.metadata.name, None)
        if not names:
            namespaces.pop(item.metadata.namespace, None)

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
