"""The pool against a server that says byte for byte what the test wants."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from scheduler.errors import Fenced, Rejected
from scheduler.kube import connection_pool
from scheduler.kube.access import Access
from scheduler.kube.connection_pool import ConnectionPool
from scheduler.kube.fence import Fence
from scheduler.kube.http_connection import Disconnected
from scheduler.observe.certificate import self_signed

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSE = b""
HANG = None


class Server:
    """Answers each request on each connection with the next of its lines; CLOSE closes instead."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.connections = 0
        self.writers = []
        self.changed = asyncio.Condition()

    async def until_asked(self, times):
        """Return once so many requests have come."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.requests) >= times)

    async def serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
                async with self.changed:
                    self.changed.notify_all()
                answer = self.answers.pop(0)
                if answer is HANG:
                    await asyncio.sleep(3600)
                writer.write(answer)
                if answer == CLOSE:
                    break
        writer.close()

    @property
    def lines(self):
        return [request.partition(b" HTTP")[0].decode() for request in self.requests]


@asynccontextmanager
async def serving(*answers, timeout_seconds=30.0, may_write=lambda: True, tls=None):
    script = Server(*answers)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    trusting = True
    if tls:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    access = Access(f"http{'s' if tls else ''}://127.0.0.1:{port}", tls=trusting)
    fence = Fence(may_write)
    pool = ConnectionPool(
        user_agent="t/1", accept="application/json", timeout_seconds=timeout_seconds, fence=fence
    )
    try:
        yield script, pool, access
    finally:
        await pool.close()
        server.close()
        for writer in script.writers:
            writer.transport.abort()


async def gone(pool):
    """Return once the pool has no connection any more."""
    await asyncio.gather(*(connection.closed for connection in pool._open))


def ask(pool, access, method="GET", target="/x", body=b""):
    return pool.request(access, method, target, body, "application/json")


async def test_requests_take_turns_on_one_connection():
    async with serving(OK, OK, OK) as (server, pool, access):
        first = await ask(pool, access)
        await ask(pool, access, "POST", "/y?a=b", b"{}")
        await ask(pool, access, "DELETE")

    assert (first.status, first.body) == (200, b"ok")
    assert server.connections == 1
    host = access.server.removeprefix("http://").encode()
    common = (
        b" HTTP/1.1\r\nHost: " + host + b"\r\nUser-Agent: t/1\r\n"
        b"Accept: application/json\r\nAccept-Encoding: identity\r\n"
    )
    assert server.requests == [
        b"GET /x" + common + b"\r\n",
        b"POST /y?a=b" + common + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"DELETE /x" + common + b"Content-Length: 0\r\n\r\n",
    ]


async def test_a_base_path_and_a_token_are_part_of_every_request():
    async with serving(OK) as (server, pool, access):
        based = Access(access.server + "/k8s/clusters/c-1", authorization="Bearer one")
        await ask(pool, based)

    assert server.lines == ["GET /k8s/clusters/c-1/x"]
    assert b"\r\nAuthorization: Bearer one\r\n" in server.requests[0]


async def test_at_once_means_a_connection_for_each_and_later_the_youngest_is_used():
    async with serving(OK, OK, OK, OK) as (server, pool, access):
        await asyncio.gather(*(ask(pool, access) for _ in range(3)))
        await ask(pool, access)

    assert server.connections == 3


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_request_that_may_be_repeated_survives_a_closed_idle_connection(method):
    async with serving(OK, CLOSE, OK) as (server, pool, access):
        await ask(pool, access)
        response = await ask(pool, access, method)

    assert response.body == b"ok"
    assert server.lines == ["GET /x", f"{method} /x", f"{method} /x"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_request_that_may_have_taken_effect_is_not_repeated(method):
    async with serving(OK, CLOSE, OK) as (server, pool, access):
        await ask(pool, access)
        with pytest.raises(Disconnected):
            await ask(pool, access, method)

    assert server.lines == ["GET /x", f"{method} /x"]


async def test_a_response_that_is_cut_is_not_asked_for_again():
    async with serving(OK, OK[:-1], OK) as (server, pool, access):
        await ask(pool, access)
        pending = asyncio.create_task(ask(pool, access))
        await server.until_asked(2)
        server.writers[0].close()
        with pytest.raises(Disconnected):
            await pending

    assert len(server.requests) == 2


async def test_a_fresh_connection_that_breaks_is_an_error():
    async with serving(CLOSE, OK) as (server, pool, access):
        with pytest.raises(Disconnected):
            await ask(pool, access)

    assert len(server.requests) == 1


async def test_a_request_that_takes_too_long_closes_its_connection():
    # Not shorter: the second request has to be answered in time on a busy machine, too.
    async with serving(HANG, OK, timeout_seconds=1.0) as (server, pool, access):
        with pytest.raises(TimeoutError):
            await ask(pool, access)
        assert (await ask(pool, access)).body == b"ok"

    assert server.connections == 2


async def test_a_request_that_is_cancelled_closes_its_connection():
    async with serving(HANG, OK) as (server, pool, access):
        pending = asyncio.create_task(ask(pool, access))
        await server.until_asked(1)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert (await ask(pool, access)).body == b"ok"

    assert server.connections == 2


async def test_closing_the_pool_ends_what_is_under_way():
    async with serving(HANG) as (server, pool, access):
        pending = asyncio.create_task(ask(pool, access))
        await server.until_asked(1)
        await pool.close()
        with pytest.raises(Disconnected):
            await pending


async def test_what_nobody_asked_for_is_no_response():
    late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
    async with serving(OK, OK) as (server, pool, access):
        await ask(pool, access)
        server.writers[0].write(late)
        await gone(pool)
        assert (await ask(pool, access, "POST")).status == 200

    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), OK.replace(b"/1.1", b"/1.0")],
)
async def test_a_connection_that_the_server_ends_is_not_used_again(answer):
    async with serving(answer, OK) as (server, pool, access):
        await ask(pool, access)
        await ask(pool, access, "POST")

    assert server.connections == 2


async def test_what_is_no_http_is_a_broken_connection():
    async with serving(b"SSH-2.0-OpenSSH_9.6\r\n\r\n") as (_, pool, access):
        with pytest.raises(ConnectionError, match=r"not an HTTP/1\.1 response: b'SSH"):
            await ask(pool, access)


async def test_idle_connections_are_closed_before_the_server_closes_them(monkeypatch):
    monkeypatch.setattr(connection_pool, "KEEPALIVE_SECONDS", 0.02)
    async with serving(OK, OK, OK) as (server, pool, access):
        await asyncio.gather(ask(pool, access), ask(pool, access))
        await gone(pool)
        await ask(pool, access, "POST")

    assert server.connections == 3


async def test_another_client_certificate_needs_another_connection():
    async with serving(OK, OK, OK, tls=self_signed()) as (server, pool, access):
        await ask(pool, access)
        await ask(pool, Access(access.server, authorization="Bearer two", tls=access.tls))
        assert server.connections == 1
        other = ssl.create_default_context()
        other.check_hostname, other.verify_mode = False, ssl.CERT_NONE
        await ask(pool, Access(access.server, tls=other))
        assert len(pool._idle) == 1, "those of the old certificate are closed"

    assert server.connections == 2


async def test_a_write_that_may_not_be_sent_leaves_its_connection_to_others():
    leads = False
    async with serving(OK, OK, may_write=lambda: leads) as (server, pool, access):
        with pytest.raises(Fenced, match=r"^POST /x: not sent"):
            await ask(pool, access, "POST")
        await ask(pool, access)

    assert (server.lines, server.connections) == (["GET /x"], 1)


@pytest.mark.parametrize("target", ["/x\r\nX: y", "/x y", "/ü", "/x\n"])
async def test_a_path_cannot_end_the_request_line(target):
    async with serving() as (server, pool, access):
        with pytest.raises(Rejected, match="not a path"):
            await ask(pool, access, "PATCH", target)

    assert not server.connections


def test_it_works_on_the_event_loop_of_production_too():
    large = b"x" * 3_000_000
    chunks = b"".join(b"%x\r\n%b\r\n" % (100_000, large[:100_000]) for _ in range(30))
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    async def run():
        async with serving(OK, chunked, CLOSE, HANG, tls=self_signed()) as (server, pool, access):
            await ask(pool, access)
            body = (await ask(pool, access, "POST", body=large)).body
            with pytest.raises(Disconnected):
                await ask(pool, access, "POST")
            pending = asyncio.create_task(ask(pool, access))
            await server.until_asked(4)
            await pool.close()
            with pytest.raises(Disconnected):
                await pending
        return body

    assert uvloop.run(run()) == large
