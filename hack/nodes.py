"""Simulated nodes, by the thousand.

A node for kwok is posted bare and becomes Ready when kwok sees it. A plain node (benchmarks, golden
tests) is posted Ready once and not updated: a scheduler sees no more of a real one.
`hack.control_plane` says which of the two a control plane uses.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from hack.api import MERGE_PATCH, AsyncApi

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from hack.api import Json

_KWOK_ANNOTATION: Final = {"kwok.x-k8s.io/node": "fake"}
_NOT_READY: Final = "node.kubernetes.io/not-ready"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: int = 110,
    capacity: Mapping[str, str] | None = None,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    kwok: bool = True,
) -> Json:
    """Describe one node.

    Args:
        name: also its hostname label.
        cpu: capacity, all of it allocatable.
        memory: likewise.
        pods: how many pods fit.
        capacity: further resources, such as ``{"example.com/gpu": "8"}``.
        zone: its topology.kubernetes.io/zone label.
        labels: further labels.
        taints: such as ``{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}``.
        unschedulable: whether it is cordoned.
        kwok: whether kwok is to look after it; a plain node is Ready from the start.
    """
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), **(capacity or {})}
    zone_label = {"topology.kubernetes.io/zone": zone} if zone else {}
    spec: dict[str, Any] = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **zone_label, **(labels or {})},
            "annotations": _KWOK_ANNOTATION if kwok else {},
        },
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            **({} if kwok else _ready_status()),
        },
    }


def nodes(count: int, *, prefix: str = "node", zones: int = 0, **each: Any) -> list[Json]:
    """Describe ``count`` nodes, ``node-00000`` and on, dealt out over so many zones."""
    return [
        node(f"{prefix}-{i:05}", zone=f"zone-{i % zones}" if zones else None, **each)
        for i in range(count)
    ]


async def create_nodes(
    kubeconfig: Path, described: Iterable[Json], *, connections: int = 32
) -> None:
    """Post nodes, many at a time; a plain node loses the taint that admission gives it."""
    async with AsyncApi(kubeconfig, connections=connections) as api:

        async def create(each: Json) -> None:
            created = await api.request("POST", "/api/v1/nodes", each)
            if "conditions" in each["status"]:
                await _untaint(api, created)

        await api.gather(create, described)


def add_nodes(kubeconfig: Path, described: Iterable[Json]) -> None:
    """`create_nodes`, for synchronous callers."""
    asyncio.run(create_nodes(kubeconfig, described))


def _ready_status() -> Json:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {"phase": "Running", "conditions": [condition]}


async def _untaint(api: AsyncApi, created: Json) -> None:
    taints = created["spec"].get("taints", [])
    kept = [taint for taint in taints if taint["key"] != _NOT_READY]
    if kept != taints:
        path = f"/api/v1/nodes/{created['metadata']['name']}"
        await api.request(
            "PATCH", path, {"spec": {"taints": kept or None}}, content_type=MERGE_PATCH
        )
