"""The state of a cluster at one moment: everything that an attempt to schedule a pod reads."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.kube.decode import Unreadable
from scheduler.model.fact import KubeObject, ResourceName
from scheduler.model.node import Node
from scheduler.model.objects import PriorityClass
from scheduler.model.pod import Pod
from scheduler.model.trust import is_rejected_by_kubelet, seconds_of

_ENDED = frozenset({"Succeeded", "Failed"})


class ClusterState:
    """Nodes, pods and small objects; built once, then only read.

    Attributes:
        pods: Pods that have not ended, by namespace and name.
        seen: The resources that the source lists; it may list none of their objects.
        unreadable: The objects that are left out, and why, one line each.
        rejected_by_kubelet: Pods that a kubelet did not admit.
        ended: The phase of pods that have ended, by namespace and name.
        newest: The latest time that any node or pod mentions, in Unix seconds: a dump does not say
            when it was made, and whether a node is distrusted depends on the time.
    """

    def __init__(self) -> None:
        self.cache = ClusterCache()
        self.pods: dict[str, Pod] = {}
        self.seen: set[ResourceName] = set()
        self.unreadable: list[str] = []
        self.rejected_by_kubelet: list[Pod] = []
        self.ended: dict[str, str] = {}
        self.newest = 0.0
        self.priority_classes: dict[str, PriorityClass] = {}

    def add(self, resource: ResourceName, item: KubeObject | Unreadable) -> None:
        """Add one object."""
        self.seen.add(resource)
        match item:
            case Unreadable():
                self.unreadable.append(f"{resource} {'/'.join(item.key)}: {item.problem}")
            case Node():
                self._update_newest(item.metadata.creation_timestamp)
                self._update_newest(*(each.last_transition_time for each in item.status.conditions))
                self.cache.add_node(item)
            case Pod():
                self._add_pod(item)
            case _:
                if isinstance(item, PriorityClass):
                    self.priority_classes[item.metadata.name] = item
                self.cache.put(resource, item)

    def _add_pod(self, pod: Pod) -> None:
        self._update_newest(pod.metadata.creation_timestamp, pod.status.start_time)
        self._update_newest(*(each.last_transition_time for each in pod.status.conditions))
        if is_rejected_by_kubelet(pod):
            self.rejected_by_kubelet.append(pod)
        if pod.status.phase in _ENDED:
            self.ended[pod.key] = pod.status.phase
            return
        if not pod.uid:  # a manifest written by hand; UIDs are the keys of the cache
            pod = replace(pod, metadata=replace(pod.metadata, uid=str(pod.key)))
        self.pods[pod.key] = pod
        if pod.node_name:
            self.cache.add_pod(pod)

    def _update_newest(self, *stamps: str | None) -> None:
        self.newest = max(self.newest, *(seconds_of(stamp) or 0.0 for stamp in stamps), 0.0)

    def remove(self, pod: Pod) -> None:
        """Remove *pod*, which is to be explained: neither its requests nor its nomination count."""
        known = self.pods.pop(pod.key, None)
        if known is not None:
            self.cache.remove_pod(known.uid)

    def nominated(self) -> Mapping[str, Sequence[Pod]]:
        """Return pending pods by nominated node, those of other schedulers included."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            if pod.nominated_node and not pod.node_name:
                found.setdefault(pod.nominated_node, []).append(pod)
        return found

    def missing(self, wanted: Iterable[ResourceName]) -> list[ResourceName]:
        """Return those of *wanted* that the source does not list."""
        return [resource for resource in wanted if resource not in self.seen]
