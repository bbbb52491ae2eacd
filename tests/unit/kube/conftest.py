"""A scripted API server on 127.0.0.1: real HTTP, answers by the book, one request after the
other."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from scheduler.kube.access import Access
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials
from scheduler.kube.rate_limit import RateLimiter

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedApi:
    """Plays its script, one handler for each request; when that is at its end it keeps quiet."""

    script: deque[Handler] = field(default_factory=deque)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    def plays(self, *handlers: Handler) -> None:
        self.script.extend(handlers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                await request.read(),
            )
        )
        handler = self.script.popleft() if self.script else self.streams(then="hang")
        return await handler(request)

    def answers(self, status: int = 200, body: Any = None, **headers: str) -> Handler:
        """Answer with *body*, a Status object if it is text and the status is an error."""
        if isinstance(body, str):
            body = {"kind": "Status", "message": body, "reason": "BecauseOfTheTest"}

        async def handler(_: web.Request) -> web.Response:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return web.Response(status=status, body=content, headers=sent)

        return handler

    def streams(self, *events: Any, then: str = "close") -> Handler:
        """Send *events* line by line; then close, hang, or cut in the middle of the next one."""

        async def handler(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for event in events:
                line = event if isinstance(event, bytes) else json.dumps(event).encode()
                await response.write(line + b"\n")
            if then == "hang":
                await self.closing.wait()
            elif then == "cut":
                await response.write(b'{"type":"ADDED","object":{"meta')
                assert request.transport is not None
                request.transport.abort()
            return response

        return handler


@pytest.fixture
async def api():
    """A scripted API server."""
    scripted = ScriptedApi()
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", scripted.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    scripted.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield scripted
    scripted.closing.set()
    await runner.cleanup()


@pytest.fixture
async def client(api):
    """A client of the scripted API server, without rate limit, whose token is exchanged on
    demand."""
    tokens = iter(["Bearer one", "Bearer two", "Bearer three"])
    credentials = Credentials(lambda _: Access(api.url, authorization=next(tokens)))
    async with ApiClient(
        credentials, limiter=RateLimiter(-1), user_agent="py-scheduler/test", timeout_seconds=30.0
    ) as opened:
        yield opened
