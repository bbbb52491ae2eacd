"""A cluster on a real API server as a generator wants it, and what a scheduler makes of it.

No kubelet runs: a pod that is deleted with a grace period stays, and shows that it was evicted.
What has to look as if it had lived for a while is brought there: statuses are written where
kubelets and controllers write them, pods are deleted that should be going, and a gate holds back
who is only nominated.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from hack.api import MERGE_PATCH, ApiError, AsyncApi

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

Json = dict[str, Any]

_KINDS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "Pod": "/api/v1/pods",
}
_NAMESPACES: Final = {"default": {}, "team-a": {"team": "a"}}
_GATE: Final = "example.com/held"
_IDENTITY: Final = ("name", "namespace", "labels")
_PATIENCE_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.004
_HEARD_SECONDS: Final = 0.12
"""Longer than any watch takes: those of nodes and budgets are not ordered with that of pods."""


@dataclass
class Observed:
    """What became of a pod.

    Args:
        posted: The pod as the API server took it.
        node: Where it was bound; empty where it was refused.
        message: What its condition says; *event* likewise.
        nominated: Its nominated node.
        leaving: Names of the pods that have been evicted since.
    """

    posted: Json
    node: str = ""
    message: str = ""
    event: str = ""
    nominated: str = ""
    leaving: set[str] = field(default_factory=set)


class LiveCluster:
    """Fills a cluster, posts pods one at a time, and clears it again."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = AsyncApi(kubeconfig, connections=8)
        self._going: set[str] = set()
        self._started = 0

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        for name, labels in _NAMESPACES.items():
            body = {"metadata": {"name": name, "labels": labels}}
            with contextlib.suppress(ApiError):  # "default" is there in time, or soon
                await self._api.request("POST", _KINDS["Namespace"], body)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._api.__aexit__(kind, error, trace)

    # Before.

    async def fill(self, objects: Iterable[Json]) -> None:
        """Post *objects*, and return when kube-scheduler has received them."""
        wanted = [each for each in objects if each["kind"] != "Namespace"]
        for kind in ("Node", "PodDisruptionBudget", "Pod"):
            await self._api.gather(self._post, [each for each in wanted if each["kind"] == kind])
        await asyncio.sleep(_HEARD_SECONDS)
        self._going = _going(await self.objects())

    async def _post(self, document: Json) -> None:
        metadata, status = document["metadata"], document.get("status", {})
        body = _with_metadata(document, _IDENTITY)
        collection = _collection(document)
        path = f"{collection}/{metadata['name']}"
        if document["kind"] == "Pod" and not document["spec"].get("nodeName"):
            body["spec"] = {**document["spec"], "schedulingGates": [{"name": _GATE}]}
        await self._api.request("POST", collection, body)
        if document["kind"] == "Node":
            return
        if kept := _written_later(status):
            change = {"status": kept}
            await self._api.request("PATCH", f"{path}/status", change, content_type=MERGE_PATCH)
        if "deletionTimestamp" in metadata:
            await self._api.request("DELETE", path)

    async def objects(self) -> list[Json]:
        """Return everything as the API server holds it."""
        found = []
        for kind, path in _KINDS.items():
            items = (await self._api.request("GET", path))["items"]
            items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
            found += [{**item, "kind": kind, "apiVersion": _version(kind)} for item in items]
        late = _going(found) - self._going
        assert not late or not self._going, f"went after all was over: {sorted(late)}"
        return found

    # One pod.

    async def post(self, pod: Json) -> Observed:
        """Post *pod*, and return once it is decided about."""
        path = f"{_collection(pod)}/{pod['metadata']['name']}"
        body = _with_metadata(pod, _IDENTITY)
        nominated = pod.get("status", {}).get("nominatedNodeName")
        if nominated:
            body["spec"] = {**pod["spec"], "schedulingGates": [{"name": _GATE}]}
        posted = await self._api.request("POST", _collection(pod), body)
        if nominated:
            status = {"status": {"nominatedNodeName": nominated}}
            await self._api.request("PATCH", f"{path}/status", status, content_type=MERGE_PATCH)
            free = {"spec": {"schedulingGates": None}}
            posted = await self._api.request("PATCH", path, free, content_type=MERGE_PATCH)
        observed = Observed({**posted, "kind": "Pod", "apiVersion": "v1"})
        decided = await self._decided(path)
        observed.node = decided["spec"].get("nodeName", "")
        observed.nominated = decided["status"].get("nominatedNodeName", "")
        if not observed.node:
            observed.message = _condition(decided)["message"]
            observed.event = await self._event(decided)
        return observed

    async def _decided(self, path: str) -> Json:
        """Wait until the pod is bound, or refused."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            pod = await self._api.request("GET", path)
            if pod["spec"].get("nodeName") or _condition(pod):
                return pod
            assert time.monotonic() < deadline, f"nobody decided about {path}"
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _event(self, pod: Json) -> str:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        uid = pod["metadata"]["uid"]
        path += f"?fieldSelector=regarding.name={name},reason=FailedScheduling,regarding.uid={uid}"
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (events := (await self._api.request("GET", path))["items"]):
            assert time.monotonic() < deadline, f"no event tells of {namespace}/{name}"
            await asyncio.sleep(_PAUSE_SECONDS)
        note: str = events[0]["note"]
        return note

    async def watch_leaving(self, observed: Observed, expected: int) -> None:
        """Record which pods are evicted; wait for at least *expected* of them."""
        deadline = time.monotonic() + _PATIENCE_SECONDS / 4
        while True:
            pods = (await self._api.request("GET", _KINDS["Pod"]))["items"]
            now = _going([{**each, "kind": "Pod"} for each in pods])
            if len(now - self._going) >= expected or time.monotonic() >= deadline:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        observed.leaving = now - self._going
        self._going = now

    async def settle(self, observed: Observed, *, keep: bool) -> None:
        """Make of the pod what it would become; one that only waits is taken away.

        Args:
            keep: Whether a nominee stays, and its victims go on ending.
        """
        path = f"{_collection(observed.posted)}/{observed.posted['metadata']['name']}"
        if observed.node:
            self._started += 1
            start = f"2026-02-01T{self._started // 3600 % 24:02}:{self._started // 60 % 60:02}"
            status = {"phase": "Running", "startTime": f"{start}:{self._started % 60:02}Z"}
            change = {"status": status}
            await self._api.request("PATCH", f"{path}/status", change, content_type=MERGE_PATCH)
            return
        if observed.nominated and keep:
            return
        await self._delete_now(path)
        pods = await self._api.request("GET", _KINDS["Pod"])
        for pod in pods["items"]:
            if pod["metadata"]["name"] in observed.leaving:
                await self._delete_now(f"{_collection({**pod, 'kind': 'Pod'})}/{_name(pod)}")
        self._going -= observed.leaving

    async def clear(self) -> None:
        """Remove everything, and return when kube-scheduler has received that."""
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for namespace in _NAMESPACES:
            await self._api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods", now)
            budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
            await self._api.request("DELETE", budgets)
        await self._api.request("DELETE", _KINDS["Node"])
        self._going = set()
        await asyncio.sleep(_HEARD_SECONDS)

    async def _delete_now(self, path: str) -> None:
        with contextlib.suppress(ApiError):
            await self._api.request("DELETE", path, {"gracePeriodSeconds": 0})


def bare(document: Json) -> Json:
    """Return *document* with as little metadata as it can be made from again."""
    return _with_metadata(document, (*_IDENTITY, "deletionTimestamp"))


def _with_metadata(document: Json, kept: Sequence[str]) -> Json:
    metadata = document["metadata"]
    return {**document, "metadata": {key: metadata[key] for key in kept if key in metadata}}


def _collection(document: Json) -> str:
    root, _, plural = _KINDS[document["kind"]].rpartition("/")
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _version(kind: str) -> str:
    return "policy/v1" if kind == "PodDisruptionBudget" else "v1"


def _written_later(status: Json) -> Json:
    """Return what somebody else writes into a status once the object is there."""
    kept = {key: value for key, value in status.items() if key != "conditions"}
    targets = [each for each in status.get("conditions", ()) if each["type"] == "DisruptionTarget"]
    return {**kept, "conditions": targets} if targets else kept


def _condition(pod: Json) -> Json:
    """Return what a scheduler said of *pod*; that a gate held it back is not meant."""
    conditions: Sequence[Json] = pod["status"].get("conditions", ())
    found = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return {} if found.get("reason") == "SchedulingGated" else found


def _going(objects: Sequence[Json]) -> set[str]:
    return {
        _name(each)
        for each in objects
        if each["kind"] == "Pod" and "deletionTimestamp" in each["metadata"]
    }


def _name(document: Json) -> str:
    name: str = document["metadata"]["name"]
    return name
