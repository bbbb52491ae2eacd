"""A scheduler that decides nothing: the ceiling of what this control plane and machine allow.

It watches pods and makes the requests that py-scheduler makes: one binding and one event for a pod;
for a preemption a status, an event, and for each victim a status, a deletion and an event before
the binding; for a pod that fits nowhere a status and an event. Which node and which victims was
written down before the run. Requests are the same, over as many connections at a time, as JSON over
HTTP/1.1. It reads only names from the watch, and its client is as cheap as Python allows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import uvloop

from benchmarks.fast_client import FastClient
from benchmarks.null_plan import read_plan
from benchmarks.objects import PODS
from hack.api import STRATEGIC_PATCH, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.null_plan import Plan

NAME: Final = "null-scheduler"
CONNECTIONS: Final = 100
"""py-scheduler's limit of requests under way."""
EVENT_WRITERS: Final = 8
"""py-scheduler's, too."""
# py-scheduler watches all pods that have not ended, whatever their node.
_Item = TypeVar("_Item")
_WATCH: Final = (
    "/api/v1/pods?watch=1&fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed"
)


class Meta(msgspec.Struct, rename="camel"):
    """What is read of a pod's metadata; nothing where the event is an ERROR."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Gate(msgspec.Struct, frozen=True):
    name: str


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    scheduler_name: str = ""
    node_name: str = ""
    scheduling_gates: tuple[_Gate, ...] = ()


class Pod(msgspec.Struct):
    """What is read of a pod."""

    metadata: Meta
    spec: _Spec = _Spec()


class _Event(msgspec.Struct):
    type: str
    object: Pod


class NullScheduler:
    """Carries a plan out.

    Args:
        client: The API server.
        plan: The answers.
    """

    def __init__(self, client: FastClient, plan: Plan) -> None:
        self._client = client
        self._plan = plan
        self._pods: asyncio.Queue[Pod] = asyncio.Queue()
        self._events: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._victims: dict[str, list[Pod]] = defaultdict(list)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            for _ in range(CONNECTIONS):
                group.create_task(_work(self._pods, self._carry_out))
            for _ in range(EVENT_WRITERS):
                group.create_task(_work(self._events, self._post_event))

    async def _watch(self) -> None:
        decode = msgspec.json.Decoder(_Event).decode
        seen: set[str] = set()
        while True:  # the server may end a watch; the next one begins with all that is there
            async with contextlib.aclosing(self._client.watch(_WATCH)) as lines:
                async for line in lines:
                    event = decode(line)
                    if event.type == "ERROR":
                        break
                    pod = event.object
                    if event.type == "ADDED" and pod.metadata.uid not in seen:
                        seen.add(pod.metadata.uid)
                        self._admit(pod)

    def _admit(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._victims[pod.spec.node_name].append(pod)
        elif pod.spec.scheduler_name == NAME and not pod.spec.scheduling_gates:
            self._pods.put_nowait(pod)

    async def _carry_out(self, pod: Pod) -> None:
        node, answer = self._plan.answer(pod.metadata.name)
        with contextlib.suppress(NotFoundError):  # deleted meanwhile
            if answer.parked:
                await self._park(pod, "")
            else:
                if answer.victims:
                    await self._preempt(pod, node, answer.victims)
                path = PODS.format(pod.metadata.namespace)
                await self._client.request(
                    "POST", f"{path}/{pod.metadata.name}/binding", binding_body(pod, node)
                )
                note = (
                    f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node}"
                )
                self._record(pod, "Scheduled", "Binding", note)

    async def _preempt(self, pod: Pod, node: str, count: int) -> None:
        """Nominate the node, then evict *count* pods from it, all at once."""
        await self._park(pod, node)
        victims = [self._victims[node].pop() for _ in range(count)]
        await asyncio.gather(*(self._evict(victim, pod, node) for victim in victims))

    async def _evict(self, victim: Pod, pod: Pod, node: str) -> None:
        await self._patch_status(victim, target_body(victim))
        path = f"{PODS.format(victim.metadata.namespace)}/{victim.metadata.name}"
        await self._client.request("DELETE", path, _deletion_body(victim))
        note = f"Preempted by pod {pod.metadata.uid} on node {node}"
        self._record(victim, "Preempted", "Preempting", note)

    async def _park(self, pod: Pod, nominated: str) -> None:
        await self._patch_status(pod, condition_body(pod, nominated))
        self._record(pod, "FailedScheduling", "Scheduling", UNSCHEDULABLE)

    async def _patch_status(self, pod: Pod, body: bytes) -> None:
        path = f"{PODS.format(pod.metadata.namespace)}/{pod.metadata.name}/status"
        await self._client.request("PATCH", path, body, STRATEGIC_PATCH)

    def _record(self, pod: Pod, reason: str, action: str, note: str) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.metadata.namespace}/events"
        self._events.put_nowait((path, event_body(pod, reason, action, note)))

    async def _post_event(self, event: tuple[str, bytes]) -> None:
        await self._client.request("POST", *event)


async def _work(queue: asyncio.Queue[_Item], act: Callable[[_Item], Awaitable[None]]) -> None:
    while True:
        await act(await queue.get())


UNSCHEDULABLE: Final = "0/0 nodes are available: the plan says so."
_encode: Final = msgspec.json.Encoder().encode


def binding_body(pod: Pod, node: str) -> bytes:
    """Return the body that binds a pod."""
    metadata = pod.metadata
    return _encode(
        {
            "metadata": {
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "target": {"name": node, "kind": "Node"},
            "apiVersion": "v1",
            "kind": "Binding",
        }
    )


def event_body(pod: Pod, reason: str, action: str, note: str) -> bytes:
    """Return the body of an event about a pod."""
    metadata, nanoseconds = pod.metadata, time.time_ns()
    return _encode(
        {
            "metadata": {
                "name": f"{metadata.name}.{nanoseconds:x}",
                "namespace": metadata.namespace,
            },
            "eventTime": f"{_now('%Y-%m-%dT%H:%M:%S.%f')}Z",
            "reportingController": NAME,
            "reportingInstance": f"{NAME}-local",
            "action": action,
            "reason": reason,
            "regarding": {
                "kind": "Pod",
                "name": metadata.name,
                "apiVersion": "v1",
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "note": note,
            "type": "Warning" if reason == "FailedScheduling" else "Normal",
        }
    )


def condition_body(pod: Pod, nominated: str) -> bytes:
    """Return the patch that says why a pod is not scheduled, and nominates a node or none."""
    return _status_body(
        pod,
        "PodScheduled",
        "False",
        "Unschedulable",
        UNSCHEDULABLE,
        {"nominatedNodeName": nominated} if nominated else {},
    )


def target_body(victim: Pod) -> bytes:
    """Return the patch that says that a pod is about to be evicted."""
    message = f"{NAME}: preempting to accommodate a higher priority pod"
    return _status_body(victim, "DisruptionTarget", "True", "PreemptionByScheduler", message, {})


def _status_body(
    pod: Pod, kind: str, status: str, reason: str, message: str, more: dict[str, str]
) -> bytes:
    condition = {
        "reason": reason,
        "message": message,
        "lastTransitionTime": f"{_now('%Y-%m-%dT%H:%M:%S')}Z",
        "lastProbeTime": None,
        "status": status,
        "type": kind,
    }
    return _encode(
        {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition], **more}}
    )


def _deletion_body(victim: Pod) -> bytes:
    preconditions = {"uid": victim.metadata.uid}
    return _encode({"preconditions": preconditions, "apiVersion": "v1", "kind": "DeleteOptions"})


def _now(form: str) -> str:
    return dt.datetime.now(dt.UTC).strftime(form)


async def _serve(kubeconfig: Path, plan: Path) -> None:
    async with FastClient(kubeconfig, CONNECTIONS) as client:
        await client.connect()  # else the first pods would wait for a hundred handshakes
        await NullScheduler(client, read_plan(plan)).run()


def main() -> None:
    """Run until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    options = parser.parse_args()
    uvloop.run(_serve(options.kubeconfig, options.plan))


if __name__ == "__main__":
    main()
