"""What the cluster takes in memory: bytes for each node and each pod, in process.

Objects come as the JSON of watch events, with all that an API server and a kubelet write into them,
and go through decoder, store, facts and cache, as in the process. Every size has a process of its
own, so that no run profits from memory which another one freed. Resident memory counts, since that
is what a container's limit counts; it includes what the allocator wastes.
"""

import argparse
import gc
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.kube.decode import ADDED, MODIFIED, ObjectChanged, ObjectDecoder
from scheduler.kube.object_store import ObjectStore
from scheduler.kube.watch_observer import SILENT_WATCHES
from scheduler.kube.watched import NODES, PODS, Watched
from scheduler.model.fact import Added, Fact, Updated
from scheduler.model.node import Node
from scheduler.model.pod import Pod

SIZES: Final = ((1_000, 10_000), (5_000, 50_000), (15_000, 150_000))
TEMPLATES: Final = 2_000
IMAGES_OF_A_NODE: Final = 50
"""As many as a kubelet reports."""
_IMAGES_IN_USE: Final = 400
_PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """What one size takes.

    Args:
        nodes: How many nodes there were.
        pods: How many pods there were.
        base: Resident bytes of the process before the first object.
        node_bytes: Bytes for each node.
        pod_bytes: Bytes for each pod.
        event_seconds: CPU for each pod that is added.
        heartbeat_seconds: CPU for each event of a pod that changes nothing that is read.
        collection_seconds: How long a full garbage collection takes.
    """

    nodes: int
    pods: int
    base: int
    node_bytes: float
    pod_bytes: float
    event_seconds: float
    heartbeat_seconds: float
    collection_seconds: float


def node_line(number: int) -> bytes:
    """Return the watch event of a node, with what its kubelet and the controllers write."""
    name = f"ip-10-{number >> 16}-{number >> 8 & 255}-{number & 255}.eu-central-1.compute.internal"
    instance = ("m7i.4xlarge", "m7i.8xlarge", "r7i.4xlarge")[number % 3]
    zone = f"eu-central-1{'abc'[number % 3]}"
    amounts = {
        "cpu": "32",
        "memory": "128690668Ki",
        "ephemeral-storage": "95551679124",
        "pods": "110",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    heartbeat = "2026-05-04T10:00:00Z"
    document = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": _uid(number, 1),
            "resourceVersion": str(7_000_000 + number),
            "creationTimestamp": "2026-05-01T08:12:13Z",
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/instance-type": instance,
                "beta.kubernetes.io/os": "linux",
                "failure-domain.beta.kubernetes.io/region": "eu-central-1",
                "failure-domain.beta.kubernetes.io/zone": zone,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": instance,
                "topology.kubernetes.io/region": "eu-central-1",
                "topology.kubernetes.io/zone": zone,
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            "managedFields": _managed_fields(("kubelet", "kube-controller-manager")),
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"aws:///{zone}/i-{number:017x}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": heartbeat,
                    "lastTransitionTime": heartbeat,
                    "reason": f"KubeletHas{kind}",
                    "message": f"kubelet reports {kind}",
                }
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "images": [
                _image((number * 7 + index * 13) % _IMAGES_IN_USE)
                for index in range(IMAGES_OF_A_NODE)
            ],
        },
    }
    return _line(ADDED, document)


def _image(number: int) -> dict[str, Any]:
    name = f"registry.example.com/platform/component-{number}"
    return {
        "names": [f"{name}@sha256:{number:064x}", f"{name}:v1.{number}.0"],
        "sizeBytes": 40_000_000 + number,
    }


def pod_line(number: int, nodes: int, kind: str = ADDED, version: int = 0) -> bytes:
    """Return the watch event of a running pod of a Deployment, with two containers."""
    template = number % TEMPLATES
    app, revision = f"service-{template}", f"{template * 7919:09x}"
    host = number % nodes
    node = f"ip-10-{host >> 16}-{host >> 8 & 255}-{host & 255}.eu-central-1.compute.internal"
    seconds = number // 20
    started = (
        f"2026-05-{2 + seconds // 86400:02}T{seconds // 3600 % 24:02}:"
        f"{seconds // 60 % 60:02}:{seconds % 60:02}Z"
    )
    name = f"{app}-{revision}-{number:05x}"
    token = f"kube-api-access-{number:05x}"
    containers = [
        _container("main", f"registry.example.com/{app}:v1.{template % 9}", "500m", token),
        _container("proxy", "registry.example.com/mesh/proxy:v2.31.0", "100m", token),
    ]
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": f"{app}-{revision}-",
            "namespace": f"team-{template % 100}",
            "uid": _uid(number, 2),
            "resourceVersion": str(9_000_000 + number + version),
            "generation": 1,
            "creationTimestamp": started,
            "labels": {
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/version": f"v1.{template % 9}",
                "pod-template-hash": revision,
                "team": f"team-{template % 100}",
            },
            "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-05-01T08:00:00Z"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{revision}",
                    "uid": _uid(template, 3),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _managed_fields(
                ("kube-controller-manager", "py-scheduler", "kubelet")
            ),
        },
        "spec": {
            "volumes": [
                {
                    "name": token,
                    "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
                },
                {"name": "config", "configMap": {"name": app, "defaultMode": 420}},
            ],
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "serviceAccountName": app,
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            **_rules(template, app),
        },
        "status": {
            "phase": "Running",
            "observedGeneration": 1,
            "conditions": [
                {
                    "type": condition,
                    "observedGeneration": 1,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": started,
                }
                for condition in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": "10.0.0.1",
            "podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            "startTime": started,
            "containerStatuses": [
                {
                    "name": container["name"],
                    "state": {"running": {"startedAt": started}},
                    "ready": True,
                    "restartCount": version,
                    "image": container["image"],
                    "imageID": f"{container['image']}@sha256:{template:064x}",
                    "containerID": f"containerd://{number:064x}",
                    "allocatedResources": container["resources"]["requests"],
                    "resources": container["resources"],
                }
                for container in containers
            ],
            "qosClass": "Burstable",
        },
    }
    return _line(kind, document)


def _rules(template: int, app: str) -> dict[str, Any]:
    """Return what some of the templates say: every fifth spreads, every fifth keeps apart."""
    selector = {"matchLabels": {"app.kubernetes.io/name": app}}
    if template % 5 == 1:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }
        return {"topologySpreadConstraints": [constraint]}
    if template % 5 == 2:
        term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        rule = "preferredDuringSchedulingIgnoredDuringExecution"
        return {"affinity": {"podAntiAffinity": {rule: [{"weight": 100, "podAffinityTerm": term}]}}}
    return {}


def _container(name: str, image: str, cpu: str, token: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "256Mi"}, "limits": {"memory": "512Mi"}}
    mount = {"name": token, "mountPath": "/var/run/secrets", "readOnly": True}
    return {
        "name": name,
        "image": image,
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{index}", "value": f"value {index}"} for index in range(6)],
        "resources": resources,
        "volumeMounts": [mount, {"name": "config", "mountPath": "/etc/config"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
        "imagePullPolicy": "IfNotPresent",
    }


def _managed_fields(managers: tuple[str, ...]) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {f"f:field-{index}": {"f:inner": {}, ".": {}} for index in range(25)}
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-05-04T10:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": fields, "f:spec": fields},
        }
        for manager in managers
    ]


def _uid(number: int, kind: int) -> str:
    return f"{number:08x}-{kind:04x}-4000-8000-{number * 2654435761 % 2**48:012x}"


def _line(kind: str, document: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": document}, separators=(",", ":")).encode()


class Cluster:
    """Decoder, stores and cache, connected as in the process."""

    def __init__(self) -> None:
        self.cache = ClusterCache()
        self._stores: dict[Watched[Any], tuple[ObjectDecoder[Any], ObjectStore[Any]]] = {
            NODES: (ObjectDecoder(NODES), ObjectStore(NODES, self._apply, SILENT_WATCHES)),
            PODS: (ObjectDecoder(PODS), ObjectStore(PODS, self._apply, SILENT_WATCHES)),
        }

    def receive(self, lines: Iterator[bytes], *, nodes: bool = False) -> float:
        """Apply watch events, and return the CPU seconds that they took, without making them."""
        decoder, store = self._stores[NODES if nodes else PODS]
        seconds = 0.0
        for line in lines:
            started = time.process_time()
            event = decoder.event(line)
            assert isinstance(event, ObjectChanged), event
            store.apply(event)
            seconds += time.process_time() - started
        return seconds

    def _apply(self, fact: Fact) -> None:
        match fact:
            case Added(new=Node() as node):
                self.cache.add_node(node)
            case Added(new=Pod() as pod) | Updated(new=Pod() as pod):
                self.cache.add_pod(pod)


def measure(nodes: int, pods: int) -> Usage:
    """Fill a cluster, and measure what it takes; only in a fresh process."""
    # As in the process once it has listed (process/background.py).
    gc.set_threshold(50_000, 20, 50)
    cluster = Cluster()
    base = _resident()
    cluster.receive(map(node_line, range(nodes)), nodes=True)
    with_nodes = _resident()
    event_seconds = cluster.receive(pod_line(number, nodes) for number in range(pods))
    with_pods = _resident()
    started = time.perf_counter()
    gc.collect()
    collection_seconds = time.perf_counter() - started
    beats = min(pods, 10_000)
    heartbeat_seconds = cluster.receive(
        pod_line(number, nodes, MODIFIED, version=1) for number in range(beats)
    )
    return Usage(
        nodes,
        pods,
        base,
        (with_nodes - base) / nodes,
        (with_pods - with_nodes) / pods,
        event_seconds / pods,
        heartbeat_seconds / beats,
        collection_seconds,
    )


def _resident() -> int:
    """Return the resident bytes of this process (Linux)."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, help="measure this size only, with --pods")
    parser.add_argument("--pods", type=int)
    parser.add_argument("--json", action="store_true", help="print one JSON object for each size")
    return parser.parse_args()


def main() -> None:
    """Measure every size in a process of its own, and print a table."""
    arguments = _arguments()
    sizes = ((arguments.nodes, arguments.pods),) if arguments.nodes else SIZES
    if not arguments.json:
        print(
            "   nodes     pods  MiB in all  KB/node  KB/pod  µs/event  µs/heartbeat  ms/collection"
        )
    # Spawned: a forked process shares pages with this one, and would count them.
    context = multiprocessing.get_context("spawn")
    for nodes, pods in sizes:
        with context.Pool(1) as pool:
            usage = pool.apply(measure, (nodes, pods))
        if arguments.json:
            print(json.dumps({name: getattr(usage, name) for name in usage.__slots__}))
            continue
        total = usage.base + usage.node_bytes * nodes + usage.pod_bytes * pods
        print(
            f"{nodes:8,} {pods:8,} {total / 2**20:11.0f} {usage.node_bytes / 1000:8.2f}"
            f" {usage.pod_bytes / 1000:7.2f} {usage.event_seconds * 1e6:9.1f}"
            f" {usage.heartbeat_seconds * 1e6:13.1f} {usage.collection_seconds * 1e3:14.0f}"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
