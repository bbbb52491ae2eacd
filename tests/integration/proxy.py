"""A proxy between a scheduler and its API server that can break everything on the way.

It listens in plain HTTP and speaks TLS to the API server, as administrator or as whoever it is told
to be, so that it sees what is asked and can lose one answer of many, hold a request, rewrite what
is told, or cut every watch.

    proxy.add(Rule("POST", "/binding", lose="answer", times=1))
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import aiohttp
import yaml
from aiohttp import web

from hack.kubeconfig import read_kubeconfig
from hack.ports import LOOPBACK, PortClaims
from tests.integration.world import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hack.api import Json
    from hack.control_plane import ControlPlane

_KEPT = ("Content-Type", "Accept", "User-Agent")
_numbers = itertools.count(1)


class Asked(NamedTuple):
    """A request that reached the API server, and its answer."""

    method: str
    path: str
    status: int


@dataclass
class Rule:
    """What is to happen to some of the requests.

    Args:
        method: The method.
        path: A regular expression that occurs in path and query.
        times: To how many of them; None: to all.
        hold: Wait for it before the request is passed on.
        lose: The connection is cut before the request is passed on, or before its answer is.
        answer: Status and body, instead of passing the request on.
        rewrite: Changes each object that is told, in lists and watches.
    """

    method: str
    path: str
    times: int | None = None
    hold: threading.Event | None = None
    lose: Literal["request", "answer"] | None = None
    answer: tuple[int, Json] | None = None
    rewrite: Callable[[Json], None] | None = None
    met: int = field(default=0, init=False)

    def meets(self, request: web.Request) -> bool:
        """Tell whether it is about *request*."""
        return (
            (self.times is None or self.met < self.times)
            and request.method == self.method
            and re.search(self.path, request.path_qs) is not None
        )


class Proxy:
    """A context manager; it runs in a thread of its own.

    Args:
        port: Where it listens; a free one by default.
        behind: The kubeconfig of whom it speaks as; an administrator by default.
    """

    def __init__(
        self, plane: ControlPlane, *, port: int | None = None, behind: Path | None = None
    ) -> None:
        self.asked: list[Asked] = []
        self._rules: list[Rule] = []
        self._access = read_kubeconfig(behind or plane.admin_kubeconfig)
        self._ports = PortClaims()
        self.port = port or self._ports.claim()
        self.kubeconfig = write_plain_kubeconfig(plane.directory, self.port)
        self._watches: set[asyncio.Transport] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        for rule in self._rules:
            if rule.hold is not None:
                rule.hold.set()
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(20)
        self._ports.release()

    def add(self, rule: Rule) -> Rule:
        """From now on, do what *rule* says; the last one added goes first."""
        self._rules.insert(0, rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Stop doing what *rule* says."""
        self._rules.remove(rule)

    def cut_watches(self) -> int:
        """Break the connection of every open watch; return how many there were."""
        watches = list(self._watches)
        for transport in watches:
            self._loop.call_soon_threadsafe(transport.abort)
        return len(watches)

    def count(self, method: str, path: str, status: int | None = None) -> int:
        """Count requests that reached the API server."""
        return sum(
            each.method == method
            and re.search(path, each.path) is not None
            and status in {None, each.status}
            for each in list(self.asked)
        )

    def bindings(self) -> Counter[str]:
        """Count the bindings that the API server accepted, by pod."""
        return Counter(
            each.path.split("/")[-2]
            for each in list(self.asked)
            if each.method == "POST" and each.path.endswith("/binding") and each.status == 201
        )

    def expect_one_binding_each(self, *pods: str) -> None:
        """Check that of all bindings so far the API server accepted one for each of *pods*."""
        # A pod shows as bound a moment before the answer to its binding has come by here.
        until(lambda: set(pods) <= set(self.bindings()), "all bindings are answered")
        assert self.bindings() == dict.fromkeys(pods, 1)

    # The thread.

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        connector = aiohttp.TCPConnector(ssl=self._access.context or True, limit=0)
        async with aiohttp.ClientSession(
            self._access.url,
            connector=connector,
            headers=self._access.headers,
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=8 << 20,
        ) as self._session:
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
            await runner.setup()
            await web.TCPSite(runner, LOOPBACK, self.port).start()
            self._started.set()
            await self._end.wait()
            self.cut_watches()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        rule = next((each for each in self._rules if each.meets(request)), None)
        body = await request.read()
        if rule is not None:
            rule.met += 1
            if rule.hold is not None:
                await asyncio.to_thread(rule.hold.wait)
            if rule.lose == "request":
                return self._cut(request)
            if rule.answer is not None:
                status, content = rule.answer
                return web.json_response(content, status=status)
        try:
            return await self._pass_on(request, body, rule)
        except aiohttp.ClientError:
            return self._cut(request)

    async def _pass_on(
        self, request: web.Request, body: bytes, rule: Rule | None
    ) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
        async with self._session.request(
            request.method, request.path_qs, data=body or None, headers=headers
        ) as answer:
            rewrite = rule.rewrite if rule is not None else None
            if request.query.get("watch") and answer.status == 200:
                return await self._stream(request, answer, rewrite)
            content = await answer.read()
            self.asked.append(Asked(request.method, request.path, answer.status))
            if rule is not None and rule.lose == "answer":
                return self._cut(request)
            return web.Response(body=content, status=answer.status, content_type="application/json")

    async def _stream(
        self,
        request: web.Request,
        answer: aiohttp.ClientResponse,
        rewrite: Callable[[Json], None] | None,
    ) -> web.StreamResponse:
        transport: Any = request.transport
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.asked.append(Asked("WATCH", request.path_qs, answer.status))
        self._watches.add(transport)
        try:
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                async for line in answer.content:
                    await response.write(line if rewrite is None else _rewritten(line, rewrite))
        finally:
            self._watches.discard(transport)
        return response

    @staticmethod
    def _cut(request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()  # type: ignore[attr-defined]
        return web.Response()


def _rewritten(line: bytes, rewrite: Callable[[Json], None]) -> bytes:
    event = json.loads(line)
    if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
        rewrite(event["object"])
    return json.dumps(event).encode() + b"\n"


def write_plain_kubeconfig(directory: Path, port: int) -> Path:
    """Write a kubeconfig for plain HTTP without credentials; return its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": f"http://{LOOPBACK}:{port}"}}],
        "users": [{"name": "user", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "user"}}],
        "current-context": "proxy",
    }
    path = directory / f"proxy-{next(_numbers)}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path
