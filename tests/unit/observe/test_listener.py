"""The endpoint never has more connections than it may, and probes are answered all the same."""

import asyncio
import ssl

import pytest
from aiohttp import web

from scheduler.observe import listener as listener_module
from scheduler.observe.certificate import self_signed
from scheduler.observe.health import Endpoint, serve
from scheduler.observe.listener import Listener, listen
from scheduler.observe.metrics import Metrics

MAXIMUM = 5


async def opened(monkeypatch, tls=None):
    monkeypatch.setattr(Listener.__init__, "__kwdefaults__", {"connections_maximum": MAXIMUM})
    return await serve(Endpoint(Metrics(), dict).application(), "127.0.0.1", 0, tls)


async def ended(reader):
    """Tell whether the other side closes; by a reset, where it had not read everything."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def probe(listener, tls=None):
    reader, writer = await asyncio.open_connection(*listener.addresses[0], ssl=tls)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("encrypted", [False, True])
async def test_probes_are_answered_however_many_silent_connections_there_are(
    monkeypatch, encrypted
):
    serving = trusting = None
    if encrypted:
        serving, trusting = self_signed(), ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    listener = await opened(monkeypatch, serving)
    silent = []
    for _ in range(4 * MAXIMUM):
        # Not even a handshake.
        silent.append(await asyncio.open_connection(*listener.addresses[0]))
        assert b"200 OK" in await probe(listener, trusting)
        assert len(listener) <= MAXIMUM

    for reader, _ in silent[:-MAXIMUM]:
        assert await ended(reader)
    for _, writer in silent:
        writer.close()
    await listener.cleanup()
    assert not len(listener)


async def test_the_oldest_connection_makes_room(monkeypatch):
    listener = await opened(monkeypatch)
    held = [await asyncio.open_connection(*listener.addresses[0]) for _ in range(MAXIMUM)]
    assert b"200 OK" in await probe(listener)

    for reader, writer in held[1:]:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.readline()
    assert await ended(held[0][0])
    for _, writer in held:
        writer.close()
    await listener.cleanup()


async def test_a_handshake_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 0.01)
    listener = await opened(monkeypatch, self_signed())
    reader, writer = await asyncio.open_connection(*listener.addresses[0])

    assert await reader.read() == b""
    writer.close()
    await listener.cleanup()


async def test_accepting_goes_on_after_descriptors_ran_out(monkeypatch):
    monkeypatch.setattr(listener_module, "_PAUSE_SECONDS", 0.0)
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, iter([OSError(24, "Too many open files")] * 2)

    async def failing(listening):
        if (failure := next(failures, None)) is not None:
            raise failure
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", failing)
    listener = await opened(monkeypatch)

    assert b"200 OK" in await probe(listener)
    await listener.cleanup()


async def test_a_request_under_way_may_end_before_the_listener_does(monkeypatch):
    release, entered = asyncio.Event(), asyncio.Event()

    async def slow(_):
        entered.set()
        await release.wait()
        return web.Response(text="done")

    application = web.Application()
    application.router.add_get("/livez", slow)
    listener = await serve(application, "127.0.0.1", 0)
    asking = asyncio.create_task(probe(listener))
    await entered.wait()
    closing = asyncio.create_task(listener.cleanup())
    await asyncio.sleep(0)
    release.set()

    assert (await asking).endswith(b"done")
    await closing


async def test_every_address_of_a_name_is_listened_at():
    listening = await listen("localhost", 0)

    assert listening
    for each in listening:
        assert each.getsockname()[0] in {"127.0.0.1", "::1"}
        each.close()
