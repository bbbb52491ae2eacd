"""The kinds of pods whose decisions are measured, and clusters full of them.

The cluster is full of pods of the same template as the pod that is decided about. That is the hard
case: their affinity, anti-affinity and spread constraints count as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.kube.decode import ObjectChanged, ObjectDecoder
from scheduler.kube.watched import PODS
from scheduler.testing import make_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model.pod import Pod

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
ZONES: Final = 10
MEASURED: Final = "measured"
PLAIN: Final = "plain"
_NAME: Final = b"@NAME@"
_NODE: Final = b"@NODE@"
_TAKEN_AT_MOST: Final = 0.4
"""Of the nodes, where a node takes one such pod: the others are left for the decisions."""
Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of pod.

    Args:
        spec: What its template says beside requests and labels, by the name of its workload.
        running: How many of its own template are running already, out of all running pods.
        workloads: How many workloads there are beside it.
        alike: Whether those say the same, each of itself.
        one_a_node: Whether a node takes only one of them.
        uneven: Whether no two nodes have the same sums of requests: each decision then changes a
            row to numbers that none has met.
    """

    spec: Callable[[str], Spec]
    running: float = 0.5
    workloads: int = 50
    alike: bool = False
    one_a_node: bool = False
    uneven: bool = False


def _term(app: str, key: str) -> Spec:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _plain(_: str) -> Spec:
    return {}


def _required(side: str, key: str) -> Callable[[str], Spec]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda app: {"affinity": {side: {required: [_term(app, key)]}}}


def _preferred(side: str, key: str) -> Callable[[str], Spec]:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return lambda app: {
        "affinity": {side: {preferred: [{"weight": 10, "podAffinityTerm": _term(app, key)}]}}
    }


def _spread(action: str) -> Callable[[str], Spec]:
    more = {"maxSkew": 5, "whenUnsatisfiable": action}
    return lambda app: {"topologySpreadConstraints": [_term(app, ZONE) | more]}


def _zones(_: str) -> Spec:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    values = [f"zone-{number}" for number in range(ZONES // 2)]
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}
    return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}}}


KINDS: Final = {
    PLAIN: Kind(_plain),
    "plain, on nodes of which no two are alike": Kind(_plain, uneven=True),
    "node affinity to half of the zones": Kind(_zones),
    "hard spread over zones": Kind(_spread("DoNotSchedule")),
    "soft spread over zones": Kind(_spread("ScheduleAnyway")),
    "required affinity, zone": Kind(_required("podAffinity", ZONE)),
    "preferred affinity, host": Kind(_preferred("podAffinity", HOST)),
    "required anti-affinity, host": Kind(_required("podAntiAffinity", HOST), one_a_node=True),
    "preferred anti-affinity, host": Kind(_preferred("podAntiAffinity", HOST)),
    "the same, 2,000 such workloads": Kind(_preferred("podAntiAffinity", HOST), 0.01, 2000, True),
}


class PodMaker:
    """Makes pods of one workload, each decoded anew from its bytes by the decoder of the watch.

    Pods then share what they share in the process, and nothing else.
    """

    def __init__(self, kind: Kind, app: str, requests: tuple[str, str] = ("100m", "128Mi")) -> None:
        self._app = app
        spec = kind.spec(app) if kind.alike or app == MEASURED else {}
        resources = {"requests": dict(zip(("cpu", "memory"), requests, strict=True))}
        container = {"name": "main", "image": "app", "resources": resources}
        name, node = _NAME.decode(), _NODE.decode()
        pod = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "labels": {"app": app},
            },
            "spec": {
                "containers": [container],
                "schedulerName": "py-scheduler",
                "nodeName": node,
                **spec,
            },
        }
        self._line = msgspec.json.encode({"type": "ADDED", "object": pod})
        self._decode = ObjectDecoder(PODS).event

    def make(self, index: int, node: str = "") -> Pod:
        """Return pod number *index*, bound to *node* if there is one."""
        line = self._line.replace(_NAME, f"{self._app}-{index}".encode())
        event = self._decode(line.replace(_NODE, node.encode()))
        assert isinstance(event, ObjectChanged), event
        pod: Pod = event.object
        return pod


def cluster(kind: Kind, nodes: int, pods: int) -> ClusterCache:
    """Fill a cluster evenly, the pods of the template first."""
    cache = ClusterCache()
    for index in range(nodes):
        cache.add_node(
            make_node(
                f"node-{index}",
                allocatable=f"{_cpu(pods / nodes)} cpu, 64Gi, 1000 pods",
                zone=f"zone-{index % ZONES}",
            )
        )
    own = own_pods(kind, nodes, pods)
    makers = [PodMaker(kind, f"other-{number}") for number in range(kind.workloads)]
    measured = PodMaker(kind, MEASURED)
    for index in range(pods):
        maker = measured if index < own else makers[index % kind.workloads]
        cache.add_pod(maker.make(index, f"node-{index % nodes}"))
    if kind.uneven:
        for index in range(nodes):
            requests = f"{1 + index % 97}m", f"{1 + index // 97}Mi"
            cache.add_pod(PodMaker(kind, f"uneven-{index}", requests).make(0, f"node-{index}"))
    return cache


def own_pods(kind: Kind, nodes: int, pods: int) -> int:
    """Return how many of the running pods have the template that is measured."""
    own = int(pods * kind.running)
    return min(own, int(nodes * _TAKEN_AT_MOST)) if kind.one_a_node else own


def decisions_possible(kind: Kind, nodes: int, wanted: int) -> int:
    """Return how many decisions can be measured cold, and as many warm: each places a pod."""
    return min(wanted, nodes // 4) if kind.one_a_node else wanted


def _cpu(pods_per_node: float) -> int:
    """Return how many CPUs a node needs, so that running pods leave room for ten times as many."""
    return max(8, round(pods_per_node))
