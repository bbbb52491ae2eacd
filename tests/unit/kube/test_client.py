import asyncio
import ssl
from contextlib import aclosing

import pytest
from aiohttp import web

from scheduler.errors import (
    Conflict,
    Fenced,
    Forbidden,
    Gone,
    NotFound,
    Rejected,
    Throttled,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.access import Access
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.requests import MERGE_PATCH
from scheduler.observe.certificate import self_signed
from scheduler.observe.health import serve


async def test_bytes_go_in_and_come_out(api, client):
    api.plays(*(api.answers(200, {"kind": "Thing"}) for _ in range(5)))

    answers = [
        await client.get("/api/v1/pods", {"fieldSelector": "a!=b,c=d"}),
        await client.post("/api/v1/pods", b"{}"),
        await client.put("/x", b"{}"),
        await client.patch("/x", b"{}", MERGE_PATCH),
        await client.delete("/x"),
    ]

    assert answers == [b'{"kind": "Thing"}'] * 5
    assert [seen.method for seen in api.seen] == ["GET", "POST", "PUT", "PATCH", "DELETE"]
    assert api.seen[0].query == {"fieldSelector": "a!=b,c=d"}
    assert api.seen[1].headers["Content-Type"] == "application/json"
    assert api.seen[3].headers["Content-Type"] == "application/merge-patch+json"
    assert api.seen[0].headers["Authorization"] == "Bearer one"
    assert api.seen[0].headers["User-Agent"] == "py-scheduler/test"
    assert api.seen[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Rejected),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Rejected),
        (429, Throttled),
        (500, Unreachable),
        (503, Unreachable),
        (302, Rejected),
    ],
)
async def test_every_status_has_its_error(api, client, status, error):
    api.plays(api.answers(status, 'pods "a" is not as it should be'))

    with pytest.raises(error) as caught:
        await client.post("/api/v1/pods", b"{}")

    assert type(caught.value) is error
    assert caught.value.status == status
    assert 'pods "a" is not as it should be' in str(caught.value)
    assert str(caught.value).startswith("POST /api/v1/pods: ")
    assert len(api.seen) == 1, "nothing is repeated behind the caller's back"


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        ("later", {"Retry_After": "7"}, 7),
        ({"details": {"retryAfterSeconds": 3}}, {}, 3),
        ("later", {"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 1),
        ("later", {}, 1),
        (b"<html>later</html>", {}, 1),
    ],
)
async def test_throttling_says_for_how_long(api, client, body, headers, seconds):
    api.plays(api.answers(429, body, **headers))

    with pytest.raises(Throttled) as caught:
        await client.get("/x")

    assert caught.value.retry_after_seconds == seconds


async def test_a_proxys_error_page_becomes_one_line(api, client):
    api.plays(api.answers(502, b"<html>\n<h1>Bad\n Gateway</h1>"))

    with pytest.raises(Unreachable, match=r"^GET /x: 502: <html> <h1>Bad Gateway</h1>$"):
        await client.get("/x")


async def test_a_refused_token_is_exchanged_once(api, client):
    api.plays(api.answers(401, "no"), api.answers(200, {}), api.answers(200, {}))

    await client.post("/x", b"{}")
    await client.get("/x")

    shown = [seen.headers["Authorization"] for seen in api.seen]
    assert shown == ["Bearer one", "Bearer two", "Bearer two"]
    assert api.seen[1].body == b"{}"


async def test_a_second_refusal_is_final(api, client):
    api.plays(api.answers(401, "no"), api.answers(401, "no, I said"))

    with pytest.raises(Unauthorized, match="no, I said"):
        await client.get("/x")


async def test_many_refusals_exchange_the_token_once(api, client):
    # All must be sent before the first refusal: one that comes later would have the new token.
    all_sent = asyncio.Barrier(8)

    async def refuses_the_first_token(request):
        if request.headers["Authorization"] == "Bearer one":
            await all_sent.wait()
            return web.Response(status=401)
        return web.Response(body=b"{}")

    api.plays(*(refuses_the_first_token for _ in range(16)))

    await asyncio.gather(*(client.get("/x") for _ in range(8)))

    tokens = [seen.headers["Authorization"] for seen in api.seen]
    assert tokens == ["Bearer one"] * 8 + ["Bearer two"] * 8


async def test_a_watch_exchanges_its_token_too(api, client):
    api.plays(api.answers(401, "no"), api.streams({"type": "X"}))

    lines = [line async for line in client.watch("/x", {})]

    assert lines == [b'{"type": "X"}']
    assert api.seen[1].headers["Authorization"] == "Bearer two"
    assert api.seen[1].query == {"watch": "1"}


async def test_no_answer_in_time_is_unreachable(api):
    api.plays(api.streams(then="hang"))
    credentials = Credentials(lambda _: Access(api.url))
    client = ApiClient(credentials, limiter=RateLimiter(-1), user_agent="t", timeout_seconds=0.2)

    async with client:
        with pytest.raises(Unreachable) as caught:
            await client.post("/x", b"{}")

    port = api.url.rpartition(":")[2]
    assert str(caught.value) == f"127.0.0.1:{port} gave no answer to POST /x: it took too long"
    assert caught.value.status == 0


async def test_a_lost_post_is_not_repeated(api, client):
    api.plays(api.streams(then="cut"), api.answers())

    with pytest.raises(Unreachable):
        await client.post("/x", b"{}")

    assert len(api.seen) == 1


async def test_a_refused_connection_is_unreachable():
    credentials = Credentials(lambda _: Access("http://127.0.0.1:1"))
    async with ApiClient(credentials, limiter=RateLimiter(-1), user_agent="t") as client:
        with pytest.raises(Unreachable, match=r"^127\.0\.0\.1:1 gave no answer to GET /x: .*Errno"):
            await client.get("/x")


async def test_watch_lines_may_be_of_any_length(api, client):
    long = b'"' + b"x" * 3_000_000 + b'"'
    api.plays(api.streams(b'"a"\n"b"', long, b'"c"'))

    lines = [line async for line in client.watch("/x", {})]

    assert lines == [b'"a"', b'"b"', long, b'"c"']


@pytest.mark.parametrize("then", ["cut", "hang"])
async def test_a_watch_raises_on_a_broken_or_silent_connection(api, client, then):
    api.plays(api.streams({"type": "X"}, then=then))
    lines = client.watch("/x", {}, silence_seconds=0.02)

    assert await anext(lines) == b'{"type": "X"}'
    with pytest.raises(Unreachable, match="WATCH /x"):
        await anext(lines)


async def test_a_watch_left_early_gives_its_connection_back(api, client):
    api.plays(api.streams({"type": "X"}, then="hang"))

    async with aclosing(client.watch("/x", {})) as lines:
        await anext(lines)

    assert not client._watches.connector._acquired


async def test_watches_do_not_take_connections_from_requests(api):
    credentials = Credentials(lambda _: Access(api.url))
    api.plays(*(api.streams({"type": "X"}, then="hang") for _ in range(3)), api.answers())

    async with ApiClient(
        credentials, limiter=RateLimiter(-1), user_agent="t", connections=1
    ) as client:
        watches = [client.watch("/x", {}) for _ in range(3)]
        for lines in watches:
            await anext(lines)
        await client.get("/x")
        for lines in watches:
            await lines.aclose()


async def test_every_request_is_observed(api):
    seen, waited, sizes = [], [], []

    class Observer:
        def request_done(self, method, status, seconds):
            seen.append((method, status))

        def request_waited(self, method, seconds):
            waited.append(method)

        def request_sized(self, method, sent, received):
            sizes.append((method, sent, received))

    credentials = Credentials(lambda _: Access(api.url))
    api.plays(api.answers(), api.answers(409, "no"), api.streams(then="hang"), api.streams())
    async with ApiClient(
        credentials,
        limiter=RateLimiter(1000),
        user_agent="t",
        observer=Observer(),
        timeout_seconds=0.5,
    ) as client:
        await client.get("/x")
        for _ in range(2):
            await asyncio.gather(client.post("/x", b"{}"), return_exceptions=True)
        _ = [line async for line in client.watch("/x", {})]

    assert seen == [("GET", 200), ("POST", 409), ("POST", 0), ("WATCH", 200)]
    assert waited == ["GET", "POST", "POST", "WATCH"]
    assert [each[:2] for each in sizes] == [("GET", 0), ("POST", 2)], "what was answered"
    assert all(received for _, _, received in sizes)


async def test_without_the_lease_no_write_begins_and_reads_go_on(api, client):
    api.plays(*(api.answers() for _ in range(2)))
    leads = True
    client.write_only_while(lambda: leads)

    await client.post("/x", b"{}")
    leads = False
    for write in (
        client.post("/x", b"{}"),
        client.delete("/x"),
        client.without_rate_limit().put("/x", b""),
    ):
        with pytest.raises(Fenced, match="leads no more"):
            await write
    await client.get("/x")

    assert [seen.method for seen in api.seen] == ["POST", "GET"]


async def test_a_write_whose_connection_took_long_is_not_sent_without_the_lease(api):
    """The lease is lost while the connection is being opened: here, in the TLS handshake."""
    leads = True
    api.plays(api.answers())

    def lose(*_):
        nonlocal leads
        leads = False

    serving, trusting = self_signed(), ssl.create_default_context()
    serving.sni_callback = lose
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = await serve(app, "127.0.0.1", 0, serving)
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    async with ApiClient(
        Credentials(lambda _: Access(url, tls=trusting)), limiter=RateLimiter(-1), user_agent="t"
    ) as client:
        client.write_only_while(lambda: leads)
        with pytest.raises(Fenced, match=r"^POST /x\?dryRun=All: not sent"):
            await client.post("/x", b"{}", {"dryRun": "All"})
        await client.get("/x")
    await runner.cleanup()

    assert [seen.method for seen in api.seen] == ["GET"]


async def test_a_write_that_waited_in_line_is_not_sent_without_the_lease(api):
    """The answer to the first frees its connection when the lease is lost already."""
    leads = True
    api.plays(api.answers(), api.answers())
    async with ApiClient(
        Credentials(lambda _: Access(api.url)),
        limiter=RateLimiter(-1),
        user_agent="t",
        connections=1,
    ) as client:

        def leads_once():
            nonlocal leads
            before, leads = leads, False
            return before

        client.write_only_while(leads_once)
        writes = [client.post("/x", b"{}") for _ in range(3)]
        first, *late = await asyncio.gather(*writes, return_exceptions=True)

    assert first == b"null"
    assert all(isinstance(each, Fenced) for each in late)
    assert len(api.seen) == 1
