"""A kubelet that takes no pod for granted, for any number of nodes at once.

kwok runs whatever is bound, so a scheduler that binds too much would go unnoticed. This one admits
the pods bound to a node in the order in which the bindings happened, and fails the others exactly
as a kubelet does (`hack.admission`). A deleted pod holds its resources for as long as its
containers take to stop, its whole grace period by default, and is then gone.

It runs pods and nothing else: nodes are kept Ready by kwok, which ignores pods
(``ControlPlane(kwok_pods=False)``), or have no heartbeats to miss.

    async with AdmittingKubelet(plane.admin_kubeconfig):
        ...

or ``python -m hack.admitting_kubelet --kubeconfig FILE``, which prints ``ready`` when it is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import aiohttp

from hack.admission import Refusal, admit
from hack.api import STRATEGIC_PATCH, ApiError, AsyncApi

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine
    from types import TracebackType

    from hack.api import Json

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
_RETRY_SECONDS: Final = 0.5
_PODS: Final = "/api/v1/pods"
_NODES: Final = "/api/v1/nodes"
_LOST: Final = (aiohttp.ClientError, OSError, TimeoutError)


class AdmittingKubelet:
    """An asynchronous context manager: it works while the block runs.

    Args:
        kubeconfig: who it is; it needs what a kubelet needs.
        nodes: the names of its nodes; None: all nodes.
        admission_delay_seconds: how long after the binding a pod is looked at.
        shutdown_seconds: how long containers take to stop when asked to, at most the pod's grace
            period; None: all of it.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        nodes: Collection[str] | None = None,
        admission_delay_seconds: float = 0.0,
        shutdown_seconds: float | None = None,
    ) -> None:
        self._api = AsyncApi(kubeconfig)
        self._mine = None if nodes is None else frozenset(nodes)
        self._admission_delay_seconds = admission_delay_seconds
        self._shutdown_seconds = shutdown_seconds
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}  # by UID; bound to a node of ours and not yet gone
        self._admitted: dict[str, set[str]] = {}  # by node: UIDs of those that hold resources
        self._arrivals: dict[str, asyncio.Queue[tuple[float, str]]] = {}
        self._ending: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        for path, query, handle in (
            (_NODES, {}, self._node_changed),
            (_PODS, {"fieldSelector": "spec.nodeName!="}, self._pod_changed),
        ):
            # Pods are admitted by what their nodes have, so nodes are listed first.
            listed = asyncio.Event()
            self._start(self._follow(path, query, handle, listed))
            await listed.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.__aexit__(kind, error, trace)
        if self._failures and error is None:
            raise self._failures[0]

    # -- Hearing -----------------------------------------------------------------------------------

    async def _follow(
        self,
        path: str,
        query: dict[str, str],
        handle: Callable[[str, Json], None],
        listed: asyncio.Event,
    ) -> None:
        """List, watch, and begin again whenever the stream ends; repeated facts do no harm."""
        while True:
            try:
                version = await self._list(path, query, handle)
                listed.set()
                await self._watch(path, {**query, "resourceVersion": version}, handle)
            except (ApiError, *_LOST):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _list(
        self, path: str, query: dict[str, str], handle: Callable[[str, Json], None]
    ) -> str:
        selector = f"?fieldSelector={query['fieldSelector']}" if query else ""
        answer = await self._api.request("GET", f"{path}{selector}")
        # A kubelet that starts over takes pods in the order of their creation.
        items = sorted(answer["items"], key=lambda each: each["metadata"]["creationTimestamp"])
        self._forget_absent(path, {item["metadata"]["uid"] for item in items})
        for item in items:
            handle("ADDED", item)
        version: str = answer["metadata"]["resourceVersion"]
        return version

    async def _watch(
        self, path: str, query: dict[str, str], handle: Callable[[str, Json], None]
    ) -> None:
        async for event in self._api.watch(path, query):
            if event["type"] == "ERROR":
                return
            handle(event["type"], event["object"])

    def _forget_absent(self, path: str, present: set[str]) -> None:
        if path == _PODS:
            for uid in set(self._pods) - present:
                self._pod_changed("DELETED", self._pods[uid])

    def _node_changed(self, kind: str, node: Json) -> None:
        if kind == "DELETED":
            self._nodes.pop(node["metadata"]["name"], None)
        else:
            self._nodes[node["metadata"]["name"]] = node

    def _pod_changed(self, kind: str, pod: Json) -> None:
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        if self._mine is not None and node not in self._mine:
            return
        if kind == "DELETED":
            self._pods.pop(uid, None)
            self._ending.discard(uid)
            self._admitted.get(node, set()).discard(uid)
            return
        is_new = uid not in self._pods
        self._pods[uid] = pod
        if pod["status"].get("phase") in _TERMINAL:
            self._admitted.get(node, set()).discard(uid)
        elif is_new and "deletionTimestamp" not in pod["metadata"]:
            self._arrived(node, uid, pod)
        if "deletionTimestamp" in pod["metadata"] and uid not in self._ending:
            self._ending.add(uid)
            self._start(self._end(node, pod))

    # -- Acting ------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failures.append(error)

    def _arrived(self, node: str, uid: str, pod: Json) -> None:
        if pod["status"].get("phase") == "Running":
            # Admitted before this kubelet started.
            self._admitted.setdefault(node, set()).add(uid)
            return
        if node not in self._arrivals:
            self._arrivals[node] = asyncio.Queue()
            self._start(self._take_in_order(node, self._arrivals[node]))
        due = asyncio.get_running_loop().time() + self._admission_delay_seconds
        self._arrivals[node].put_nowait((due, uid))

    async def _take_in_order(self, node: str, arrivals: asyncio.Queue[tuple[float, str]]) -> None:
        while True:
            due, uid = await arrivals.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            pod = self._pods.get(uid)
            if pod is not None and uid not in self._ending:
                await self._judge(node, pod)

    async def _judge(self, name: str, pod: Json) -> None:
        node = self._nodes.get(name) or await self._read_node(name)
        if node is None:
            return  # a node without an object has no kubelet either
        refusal = self._refusal(name, pod, node)
        if refusal is not None and refusal.reason == "NodeAffinity":
            # A label may be newer than our watch, so the kubelet reads the node again.
            refusal = self._refusal(name, pod, await self._read_node(name) or node)
        if refusal is None:
            self._admitted.setdefault(name, set()).add(pod["metadata"]["uid"])
        status = _running(pod) if refusal is None else _failed(refusal)
        await self._patch_status(pod, status)

    def _refusal(self, name: str, pod: Json, node: Json) -> Refusal | None:
        return admit(pod, node, [self._pods[uid] for uid in self._admitted.get(name, ())])

    async def _end(self, node: str, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._admitted.get(node, ()):
            await asyncio.sleep(self._seconds_to_stop(pod))
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._until_answered("DELETE", _path(pod), body)

    def _seconds_to_stop(self, pod: Json) -> float:
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        return grace if self._shutdown_seconds is None else min(grace, self._shutdown_seconds)

    async def _read_node(self, name: str) -> Json | None:
        return await self._until_answered("GET", f"{_NODES}/{name}")

    async def _patch_status(self, pod: Json, status: Json) -> None:
        # The UID makes it a conflict, not a mistake, when another pod has taken the name.
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._until_answered("PATCH", f"{_path(pod)}/status", body)

    async def _until_answered(
        self, method: str, path: str, body: Json | None = None
    ) -> Json | None:
        """Repeat a request until the server answers; None if the object is gone or was replaced."""
        content_type = STRATEGIC_PATCH if method == "PATCH" else None
        while True:
            try:
                return await self._api.request(method, path, body, content_type=content_type)
            except ApiError as error:
                if error.status in {404, 409}:
                    return None
                if error.status < 500 and error.status != 429:
                    raise
            except _LOST:
                pass
            await asyncio.sleep(_RETRY_SECONDS)


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _failed(refusal: Refusal) -> Json:
    return {
        "phase": "Failed",
        "reason": refusal.reason,
        "message": refusal.message,
        "startTime": _now(),
    }


def _running(pod: Json) -> Json:
    now = _now()
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now} for kind in _CONDITIONS
    ]
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": conditions,
        "containerStatuses": containers,
    }


async def _serve(options: argparse.Namespace) -> None:
    async with AdmittingKubelet(
        options.kubeconfig,
        nodes=options.node,
        admission_delay_seconds=options.admission_delay,
        shutdown_seconds=options.shutdown,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m hack.admitting_kubelet", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--node", action="append", help="one of its nodes (default: all nodes)")
    parser.add_argument(
        "--admission-delay", type=float, default=0.0, help="seconds from binding to admission"
    )
    parser.add_argument(
        "--shutdown", type=float, help="seconds that containers take to stop (default: the grace)"
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
