"""The scheduler's core in this process, fed with the lines of a watch, and timed in CPU seconds.

Everything between a line of a watch and the request that carries out a decision is what production
runs; only the sockets are missing. Time advances by the CPU time that the scheduler uses and jumps
over the time in which it has nothing to do: a busy machine makes no step longer, and backoffs cost
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from scheduler.binding.binding_requests import BindingRequests
from scheduler.config.configuration import read
from scheduler.errors import NotFound
from scheduler.framework.profile import needs_of_all
from scheduler.framework.registry import Registry
from scheduler.kube.reflector import Reflector
from scheduler.kube.watched import watched_for
from scheduler.loop.control_loop import LoopSettings
from scheduler.loop.core import LoopConfiguration, SchedulerCore
from scheduler.model.fact import Resource
from scheduler.observe import families
from scheduler.observe.metrics import Metrics
from scheduler.plugins import IN_TREE
from scheduler.reporting.clock import Clock
from scheduler.reporting.telemetry import Telemetry
from scheduler.testing.clock import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
    from contextvars import Context

    from scheduler.framework.decision import Bind
    from scheduler.kube.requests import Params
    from scheduler.observe.families import Family
    from scheduler.queue.queued_pod import QueuedPod

Json = dict[str, Any]

SCHEDULER: Final = "py-scheduler"
_LIST_END: Final = json.dumps(
    {
        "type": "BOOKMARK",
        "object": {
            "metadata": {
                "resourceVersion": "1",
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
        },
    }
).encode()


class CpuTimeLoop(VirtualTimeLoop):
    """A virtual time loop on which computing takes its CPU time, step by step.

    Attributes:
        longest: The longest step so far, in CPU seconds.
        longest_of: What ran in that step: the callback, or the coroutine of the task.
        busy: The sum of all steps.
    """

    def __init__(self) -> None:
        self.longest = self.busy = 0.0
        self.longest_of = ""
        self._began = self._elsewhere = 0.0
        self._in_step = False
        super().__init__()

    def time(self) -> float:
        """Return the virtual time, the step that runs now included."""
        return super().time() + self._step_so_far()

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Leave out what the API server would do, in a process of its own."""
        assert self._in_step, "nothing is measured"
        so_far = self._step_so_far()
        yield
        # Whatever an inner block left out is left out once.
        self._elsewhere = time.thread_time() - self._began - so_far

    def call_soon(  # type: ignore[override] # typeshed spells the arguments with TypeVarTuple
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call *callback* in the next iteration, as a step that is measured."""
        return super().call_soon(self._step, callback, *args, context=context)

    def _step(self, callback: Callable[..., object], *args: Any) -> None:
        self._began, self._elsewhere, self._in_step = time.thread_time(), 0.0, True
        try:
            callback(*args)
        finally:
            took = self._step_so_far()
            self._in_step = False
            self.advance(took)
            self.busy += took
            if took > self.longest:
                self.longest, self.longest_of = took, _name_of(callback)

    def _step_so_far(self) -> float:
        return time.thread_time() - self._began - self._elsewhere if self._in_step else 0.0


def _name_of(callback: Callable[..., object]) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return str(getattr(task.get_coro(), "__qualname__", task))
    return str(getattr(callback, "__qualname__", callback))


class _DecisionTimes(Metrics):
    """Remembers how long each of the last decisions took, and when it began."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._took: deque[tuple[float, float]] = deque(maxlen=100)

    def observe(self, family: Family, amount: float, *labels: str) -> None:
        """Add *amount* to a histogram; where it is a decision, remember it."""
        super().observe(family, amount, *labels)
        if family is families.ALGORITHM_DURATION:
            self._took.append((self._now() - amount, amount))

    def decision_begun_at(self, started: float) -> float:
        """Return how long the decision took that began at *started*, give or take a moment."""
        return min(self._took, key=lambda each: abs(each[0] - started))[1]


class _PodTimes(Telemetry):
    """Remembers how long the decision took that bound a pod, by the pod's UID."""

    def __init__(self, metrics: _DecisionTimes) -> None:
        super().__init__(metrics)
        self._times = metrics
        self.took: dict[str, float] = {}

    def bound(self, queued: QueuedPod, decision: Bind, *, started: float, now: float) -> None:
        """A pod is bound."""
        super().bound(queued, decision, started=started, now=now)
        self.took[decision.pod.uid] = self._times.decision_begun_at(started)


class _Watch:
    """What a reflector reads: an empty list, and then one line in each iteration of the loop."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Refuse: a list is streamed."""
        raise NotFound(f"{path} {params} is not listed by pages", status=404)

    async def watch(
        self,
        path: str,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        *,
        silence_seconds: float,  # noqa: ARG002
    ) -> AsyncGenerator[bytes]:
        """Yield the end of an empty list, and the lines."""
        yield _LIST_END
        while True:
            line = await self.lines.get()
            # A connection delivers no two large lines at once.
            await asyncio.sleep(0)
            yield line


class Cluster:
    """An API server's objects, the watches that deliver them, and the core that gets them.

    It answers the scheduler's requests (bindings and statuses) at once. `running` starts the loop.
    """

    def __init__(self, loop: CpuTimeLoop) -> None:
        self._loop = loop
        registry = Registry(IN_TREE)
        profile = registry.build(read().resolve(registry.available).profiles[0])
        watched = watched_for(needs_of_all((profile,)))
        self.metrics = _DecisionTimes(loop.time)
        telemetry = _PodTimes(self.metrics)
        self.core = SchedulerCore(
            configuration=LoopConfiguration(
                {profile.scheduler_name: profile},
                awaited=frozenset(each.resource for each in watched),
            ),
            requests=self,
            binds=BindingRequests(self, _no_limit, telemetry),
            telemetry=telemetry,
            may_act=lambda: True,
            settings=LoopSettings(),
            clock=Clock(loop.time, time.time),
        )
        self.telemetry = telemetry
        self._watches = {each.resource: _Watch() for each in watched}
        self.reflectors = [
            Reflector(
                self._watches[each.resource],
                each,
                self.core.inbox.put,
                observer=telemetry,
                clock=loop.time,
            )
            for each in watched
        ]
        # None of these pods fails, so the watch of failed ones delivers nothing.
        self._by_path = {
            each.path: each.resource for each in watched if each.resource != Resource.FAILED_POD
        }
        self._objects: dict[str, Json] = {}
        self._versions = itertools.count(1)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the loop while the block lasts."""
        task = asyncio.create_task(self.core.loop.run())
        watching = [asyncio.create_task(each.run()) for each in self.reflectors]
        try:
            yield
        finally:
            for each in watching:
                each.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            self.core.loop.stop()
            await task
            await self.core.status.close(1.0)

    # What users do.

    async def create(self, document: Json) -> str:
        """Create an object, and return its path; a watch that wants it delivers it."""
        with self._loop.elsewhere():
            path = path_of(document)
            metadata = {"uid": path, "creationTimestamp": "2026-01-01T00:00:00Z"}
            document = document | {"metadata": metadata | document["metadata"]}
        self._store("ADDED", path, document)
        # A watch delivers one line in each iteration of the event loop at most.
        await asyncio.sleep(0)
        return path

    async def remove(self, path: str) -> None:
        """Delete an object at once."""
        self._store("DELETED", path, self._objects[path])
        del self._objects[path]
        self.took.pop(path, None)
        await asyncio.sleep(0)

    async def drained(self) -> None:
        """Return once every line was read: large ones are read in pieces, over many iterations."""
        while any(not each.lines.empty() for each in self._watches.values()):  # noqa: ASYNC110 - virtual
            await asyncio.sleep(0.001)

    def document(self, path: str) -> Json:
        """Return an object as it is now."""
        return self._objects[path]

    def condition(self, path: str) -> Json:
        """Return the pod's PodScheduled condition; empty where it has none."""
        conditions = self._objects[path].get("status", {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def is_settled(self, path: str) -> bool:
        """Tell whether a pod is bound, parked with a condition, or not to be scheduled yet."""
        spec = self._objects[path]["spec"]
        return bool(spec.get("nodeName") or spec.get("schedulingGates") or self.condition(path))

    def decisions(self) -> tuple[float, float]:
        """Return how long all decisions took so far, in CPU seconds, and how many there were."""
        name = families.ALGORITHM_DURATION.name
        value = self.metrics.registry.get_sample_value
        return value(f"{name}_sum") or 0.0, value(f"{name}_count") or 0.0

    @property
    def took(self) -> dict[str, float]:
        """How long the decisions took that bound pods, by path; for the caller to take out."""
        return self.telemetry.took

    def _store(self, kind: str, path: str, document: Json) -> None:
        with self._loop.elsewhere():
            version = str(next(self._versions))
            document = document | {"metadata": document["metadata"] | {"resourceVersion": version}}
            self._objects[path] = document
            resource = self._by_path.get(_collection_of(document))
            if resource is None:
                return
            line = json.dumps({"type": kind, "object": document}, ensure_ascii=False).encode()
            self._watches[resource].lines.put_nowait(line)

    # Requests, which the core makes.

    async def get(self, path: str, params: Params | None = None) -> bytes:  # noqa: ARG002
        """Read an object."""
        with self._loop.elsewhere():
            return json.dumps(self._found(path)).encode()

    async def post(self, path: str, body: bytes, params: Params | None = None) -> bytes:  # noqa: ARG002
        """Bind a pod."""
        pod, _, what = path.rpartition("/")
        assert what == "binding", f"nothing else is posted: {path}"
        with self._loop.elsewhere():
            document = self._found(pod)
            node = json.loads(body)["target"]["name"]
            document = document | {"spec": document["spec"] | {"nodeName": node}}
        self._store("MODIFIED", pod, document)
        return b'{"kind":"Status","status":"Success"}'

    async def put(self, path: str, body: bytes, params: Params | None = None) -> bytes:  # noqa: ARG002
        """Refuse: nothing is replaced here."""
        raise NotFound(f"{path} cannot be put", status=404)

    async def delete(self, path: str, body: bytes = b"", params: Params | None = None) -> bytes:  # noqa: ARG002
        """Evict a pod at once."""
        self._found(path)
        await self.remove(path)
        return b"{}"

    async def patch(
        self,
        path: str,
        body: bytes,
        content_type: str,  # noqa: ARG002
        params: Params | None = None,  # noqa: ARG002
    ) -> bytes:
        """Write a pod's status."""
        pod = path.removesuffix("/status")
        with self._loop.elsewhere():
            document = self._found(pod)
            status = document.get("status", {}) | json.loads(body).get("status", {})
            document = document | {"status": status}
        self._store("MODIFIED", pod, document)
        return b"{}"

    def _found(self, path: str) -> Json:
        if path not in self._objects:
            raise NotFound(f"{path} not found", status=404)
        return self._objects[path]


_PLURALS: Final = {
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "Service": "services",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "CSINode": "csinodes",
}


def _base_of(document: Json) -> str:
    version = document["apiVersion"]
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _collection_of(document: Json) -> str:
    return f"{_base_of(document)}/{_PLURALS[document['kind']]}"


def path_of(document: Json) -> str:
    """Return the API path of a document."""
    metadata, plural = document["metadata"], _PLURALS[document["kind"]]
    inside = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{_base_of(document)}{inside}/{plural}/{metadata['name']}"


async def _no_limit() -> None:
    """Do not limit the rate of requests."""
