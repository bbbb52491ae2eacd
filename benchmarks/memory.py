"""Memory of the cluster cache for each node and pod: what the process grows by while it is filled.

Pods belong to two thousand templates, have two containers, and come as bytes through the decoder of
the watch. Runs in a process of its own, with the memory that it frees given back first.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
from typing import Any, Final

import msgspec

from benchmarks.decision_results import Memory
from benchmarks.kinds import ZONES
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.kube.decode import ObjectChanged, ObjectDecoder
from scheduler.kube.watched import PODS
from scheduler.testing import make_node

TEMPLATES: Final = 2000
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the resident memory of this process, without what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no path is made
        return int(file.read().split()[1]) * _PAGE


def pod_line(index: int, template: int, node: str) -> bytes:
    """Return the watch event of one pod."""
    containers = [
        {
            "name": name,
            "image": f"registry.example/app-{template}:{name}",
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"cpu": "200m", "memory": "256Mi"},
            },
        }
        for name in ("main", "sidecar")
    ]
    owner = {"kind": "ReplicaSet", "name": f"app-{template}", "uid": f"owner-{template}"}
    metadata = {
        "name": f"app-{template}-{index}",
        "namespace": f"team-{template % 100}",
        "uid": f"00000000-0000-0000-0000-{index:012}",
        "resourceVersion": str(1000 + index),
        "labels": {"app": f"app-{template}", "pod-template-hash": f"{template:08x}"},
        "ownerReferences": [{**owner, "apiVersion": "apps/v1", "controller": True}],
    }
    spec: dict[str, Any] = {
        "nodeName": node,
        "schedulerName": "default-scheduler",
        "priority": 0,
        "containers": containers,
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
    }
    pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    return msgspec.json.encode({"type": "ADDED", "object": pod})


def measure(nodes: int, pods: int) -> Memory:
    """Fill a cache with so many nodes and pods and return what each took."""
    cache, decode = ClusterCache(), ObjectDecoder(PODS).event
    empty = resident_bytes()
    for index in range(nodes):
        cache.add_node(make_node(f"node-{index}", zone=f"zone-{index % ZONES}"))
    filled = resident_bytes()
    for index in range(pods):
        event = decode(pod_line(index, index % TEMPLATES, f"node-{index % nodes}"))
        assert isinstance(event, ObjectChanged), event
        cache.add_pod(event.object)
    full = resident_bytes()
    return Memory(nodes, pods, round((filled - empty) / nodes), round((full - filled) / pods))


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    options = parser.parse_args()
    print(msgspec.json.encode(measure(options.nodes, options.pods)).decode())


if __name__ == "__main__":
    main()
