"""A picture of a cluster at one moment, as one pod's attempt needs it."""

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


class Picture:
    """Nodes, pods and small objects; built once, then only read.

    ``seen`` are the resources that something was told about, if only that there are none;
    ``unreadable`` says which objects are left out, and why; ``refused`` are pods that kubelets did
    not take; ``ended`` tells the phase of pods that are over. ``newest`` is the latest time that
    any node or pod tells, in seconds since 1970.
    """

    def __init__(self) -> None:
        self.cache = ClusterCache()
        self.pods: dict[str, Pod] = {}
        self.seen: set[ResourceName] = set()
        self.unreadable: list[str] = []
        self.refused: list[Pod] = []
        self.ended: dict[str, str] = {}
        self.newest = 0.0
        self.priority_classes: dict[str, PriorityClass] = {}

    def take(self, resource: ResourceName, item: KubeObject | Unreadable) -> None:
        """Add one object."""
        self.seen.add(resource)
        match item:
            case Unreadable():
                self.unreadable.append(f"{resource} {'/'.join(item.key)}: {item.problem}")
            case Node():
                self._date(item.metadata.creation_timestamp)
                self._date(*(each.last_transition_time for each in item.status.conditions))
                self.cache.add_node(item)
            case Pod():
                self._take_pod(item)
            case _:
                if isinstance(item, PriorityClass):
                    self.priority_classes[item.metadata.name] = item
                self.cache.put(resource, item)

    def _take_pod(self, pod: Pod) -> None:
        self._date(pod.metadata.creation_timestamp, pod.status.start_time)
        self._date(*(each.last_transition_time for each in pod.status.conditions))
        if is_rejected_by_kubelet(pod):
            self.refused.append(pod)
        if pod.status.phase in _ENDED:
            self.ended[pod.key] = pod.status.phase
            return
        if not pod.uid:  # written by hand: the name has to tell pods apart
            pod = replace(pod, metadata=replace(pod.metadata, uid=str(pod.key)))
        self.pods[pod.key] = pod
        if pod.node_name:
            self.cache.add_pod(pod)

    def _date(self, *stamps: str | None) -> None:
        self.newest = max(self.newest, *(seconds_of(stamp) or 0.0 for stamp in stamps), 0.0)

    def take_out(self, pod: Pod) -> None:
        """Let *pod* be on no node and hold no nomination: it is the one that is asked about."""
        known = self.pods.pop(pod.key, None)
        if known is not None:
            self.cache.remove_pod(known.uid)

    def nominated(self) -> Mapping[str, Sequence[Pod]]:
        """Return pending pods by the node they are nominated to, whoever is to place them."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            if pod.nominated_node and not pod.node_name:
                found.setdefault(pod.nominated_node, []).append(pod)
        return found

    def missing(self, wanted: Iterable[ResourceName]) -> list[ResourceName]:
        """Return those of *wanted* that nothing was told about."""
        return [resource for resource in wanted if resource not in self.seen]
