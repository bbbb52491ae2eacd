"""The path of a pod through the code, traced: from its watch event to the POST of its binding.

The run is real: the reflectors decode bytes, the loop schedules with the default plugins, and the
binding cycle makes the request; only the API server is a stand-in. A few pods are bound first, so
that lists, columns and caches exist. Then one more pending pod arrives, and every call of a
function of the package is recorded until its binding is posted.

What is counted:

- *everything*: the distinct functions that are called;
- *the way*: those that are under way at a station, which means that they have been called and have
  not returned. Stations are where the pod changes hands (it is decoded, enters the inbox, leaves
  it, enters the heap of active pods, is popped, becomes in flight, is shown a view, is assumed, is
  posted) and where it meets the first plugin of each extension point. Plugins are the end of such a
  way and not counted. So helpers that a step calls and that return before the pod moves on are not
  on the way; nor are observers. Before `loop` was redrawn into rooms this gave 72 functions in 27
  modules; a reviewer who read the same code by hand had found 71 in 27.

A coroutine counts once, however often it is resumed. Lambdas, comprehensions and generator
expressions belong to the function around them. Functions that msgspec, NumPy and dataclasses
generate have no text to read, and are not counted.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

import structlog

import scheduler
from scheduler.kube.reflector import Reflector
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource
from scheduler.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from types import CodeType, FrameType

Json = dict[str, Any]
Stack = tuple["CodeType", ...]
"""Functions of ours that are under way, the innermost first."""

_HOME: Final = FilePath(scheduler.__file__).parent
_TEST_KIT: Final = _HOME / "testing"
_WATCHED: Final = (Resource.POD, Resource.FAILED_POD, Resource.NODE)
_NODES: Final = 5
_PODS_BEFORE: Final = 3
_PATIENCE_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 0.05
_STATIONS: Final = (
    "Pod.check",
    "Inbox.put",
    "Inbox.take",
    "PodHeap.add",
    "SchedulingQueue.pop",
    "InFlight.add",
    "ClusterCache.view",
    "ClusterCache.assume",
)
_PLUGIN_POINTS: Final = (
    *("pre_enqueue", "sort_key", "pre_filter", "filter"),
    *("score", "reserve", "permit", "pre_bind"),
)
_POINTS_MISSED: Final = {"permit"}
"""No default plugin permits."""


@dataclass(frozen=True)
class Path:
    """What was called.

    Args:
        everything: All functions, as ``module: function``, in the order of their first call.
        way: Those of them that are on the way.
        filter_depth: How many calls lead from the loop's run to a filter plugin, both included.
    """

    everything: tuple[str, ...]
    way: tuple[str, ...]
    filter_depth: int

    @property
    def all_modules(self) -> int:
        """In how many modules all functions are."""
        return len({name.partition(":")[0] for name in self.everything})

    @property
    def way_modules(self) -> int:
        """In how many modules the functions on the way are."""
        return len({name.partition(":")[0] for name in self.way})


def trace() -> Path:
    """Run a scheduler, and return the path of one pod."""
    with structlog.testing.capture_logs():
        stacks = asyncio.run(_trace())
    at_stations = _at_stations(stacks)
    way = {code for stack in at_stations.values() for code in stack}
    called = dict.fromkeys(stack[0] for stack in stacks)
    return Path(
        tuple(_name(code) for code in called if not _is_part(code)),
        tuple(
            _name(code)
            for code in called
            if code in way and not _is_part(code) and not _is_plugin(code)
        ),
        len(at_stations["filter"]),
    )


async def _trace() -> list[Stack]:
    server = _Server()
    async with Harness(requests=server, watching=_WATCHED, listed=False) as harness:
        sink = harness.core.inbox.put
        watching = [
            asyncio.create_task(Reflector(server, WATCHED[resource], sink).run())
            for resource in _WATCHED
        ]
        for number in range(_NODES):
            server.tell("/api/v1/nodes", "ADDED", _node(f"node-{number}"))
        for number in range(_PODS_BEFORE):
            await server.bind(_pod(f"before-{number}"))
        # The first one of its template: about those that follow, plugins are hardly asked.
        stacks = await server.bind(_pod("traced", template="traced"))
        for task in watching:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return stacks


class _Server:
    """An API server that knows watches and bindings; each binding ends a recording."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Queue[bytes]] = {}
        self._version = 1
        self._stacks: list[Stack] = []
        self._posted = asyncio.Event()

    async def bind(self, pod: Json) -> list[Stack]:
        """Create a pod, and return the stacks of all calls until its binding was posted."""
        self._stacks = []
        self._posted.clear()
        await asyncio.sleep(_QUIET_SECONDS)
        self.tell("/api/v1/pods", "ADDED", pod)
        sys.setprofile(self._record)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._posted.wait()
        finally:
            sys.setprofile(None)
        stacks = self._stacks
        await asyncio.sleep(_QUIET_SECONDS)
        return stacks

    def tell(self, path: str, kind: str, item: Json) -> None:
        """Let the watch of *path* yield an event."""
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._of(path).put_nowait(_line(kind, item))

    def _of(self, path: str) -> asyncio.Queue[bytes]:
        return self._events.setdefault(path, asyncio.Queue())

    def _record(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _is_ours(frame.f_code):
            self._stacks.append(_stack(frame))

    # What the scheduler asks for.

    async def watch(
        self, path: str, params: Mapping[str, str], *, silence_seconds: float
    ) -> AsyncGenerator[bytes]:
        """Yield the lines of a watch; all there is comes after the list."""
        assert params["sendInitialEvents"], f"{path} is listed by pages"
        assert silence_seconds > 0
        end = {"k8s.io/initial-events-end": "true"}
        yield _line("BOOKMARK", {"metadata": {"resourceVersion": "1", "annotations": end}})
        failed = params.get("fieldSelector") == WATCHED[Resource.FAILED_POD].field_selector
        events: asyncio.Queue[bytes] = asyncio.Queue() if failed else self._of(path)
        while True:
            yield await events.get()

    async def post(self, path: str, body: bytes, params: object = None) -> bytes:
        """Bind a pod."""
        sys.setprofile(None)
        assert path.endswith("/binding"), f"POST {path} {params}"
        self._stacks.append(_stack(sys._getframe()))  # noqa: SLF001 - the way to the request
        binding = json.loads(body)
        pod = _pod(binding["metadata"]["name"])
        pod["spec"]["nodeName"] = binding["target"]["name"]
        self.tell("/api/v1/pods", "MODIFIED", pod)
        self._posted.set()
        return b'{"kind": "Status", "status": "Success"}'

    async def get(self, path: str, params: object = None) -> bytes:
        """Fail: nothing needs to be read."""
        raise AssertionError(f"GET {path} {params}")

    async def put(self, path: str, body: bytes, params: object = None) -> bytes:
        """Fail: nothing needs to be replaced."""
        raise AssertionError(f"PUT {path} {body!r} {params}")

    async def patch(
        self, path: str, body: bytes, content_type: str, params: object = None
    ) -> bytes:
        """Fail: no status needs to be written."""
        raise AssertionError(f"PATCH {path} {body!r} {content_type} {params}")

    async def delete(self, path: str, body: bytes = b"", params: object = None) -> bytes:
        """Fail: nothing needs to be deleted."""
        raise AssertionError(f"DELETE {path} {body!r} {params}")


# Stacks.


def _stack(frame: FrameType | None) -> Stack:
    found = []
    while frame is not None:
        if _is_ours(frame.f_code):
            found.append(frame.f_code)
        frame = frame.f_back
    return tuple(found)


@cache
def _is_ours(code: CodeType) -> bool:
    path = FilePath(code.co_filename)
    return _HOME in path.parents and _TEST_KIT not in path.parents


def _is_plugin(code: CodeType) -> bool:
    return _HOME / "plugins" in FilePath(code.co_filename).parents


def _is_part(code: CodeType) -> bool:
    """Tell whether *code* is a lambda, a comprehension or a generator expression."""
    return code.co_name.startswith("<")


def _at_stations(stacks: list[Stack]) -> dict[str, Stack]:
    """Return the stack with which each station was first entered."""
    found: dict[str, Stack] = {"POST": stacks[-1]}
    for stack in stacks:
        name = stack[0].co_qualname
        point = stack[0].co_name
        if name in _STATIONS:
            found.setdefault(name, stack)
        if point in _PLUGIN_POINTS and _is_plugin(stack[0]):
            found.setdefault(point, stack)
    missed = {*_STATIONS, *_PLUGIN_POINTS} - _POINTS_MISSED - found.keys()
    assert not missed, f"the pod did not pass {missed}: were they renamed?"
    return found


def _name(code: CodeType) -> str:
    module = FilePath(code.co_filename).relative_to(_HOME).with_suffix("")
    return f"{'.'.join(module.parts)}: {code.co_qualname}"


# Objects as the API server would send them.


def _line(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode()


def _node(name: str) -> Json:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(name: str, template: str = "web") -> Json:
    requests = {"cpu": "100m", "memory": "64Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": template},
        },
        "spec": {
            "schedulerName": "py-scheduler",
            "priority": 0,
            "containers": [{"name": "main", "image": "web:1", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending"},
    }
