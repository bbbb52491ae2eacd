"""Who may ask: the API server says so, and its answers count for ten seconds."""

import asyncio
import json

import pytest

from scheduler.errors import Unreachable
from scheduler.kube.reviews import Reviews


class Server:
    """Knows one token; lets its bearer, and nobody else, get /metrics."""

    def __init__(self):
        self.asked = []
        self.away = False

    async def post(self, path, body, params=None):
        del params
        if self.away:
            raise Unreachable("gone")
        review = json.loads(body)
        self.asked.append((path, review))
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = {"username": "prometheus", "groups": ["g"], "extra": {"k": ["v"]}}
            known = {"authenticated": True, "user": user}
            return json.dumps({"status": known if spec["token"] == "good" else {}}).encode()
        allowed = spec["user"] == "prometheus" and spec["nonResourceAttributes"] == {
            "path": "/metrics",
            "verb": "get",
        }
        return json.dumps({"status": {"allowed": allowed}}).encode()


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        ("good", "/metrics", 200),
        ("good", "/configz", 403),
        ("bad", "/metrics", 401),
        ("", "/metrics", 403),
    ],
)
async def test_the_server_decides(token, path, status):
    assert await Reviews(Server()).judge(token, "get", path) == status


async def test_answers_count_for_ten_seconds():
    now = [0.0]
    server = Server()
    reviews = Reviews(server, clock=lambda: now[0])
    for at in (0.0, 9.9):
        now[0] = at
        assert await reviews.judge("good", "get", "/metrics") == 200
    assert len(server.asked) == 2
    assert server.asked[1][1]["spec"]["extra"] == {"k": ["v"]}

    now[0] = 10.0
    await reviews.judge("good", "get", "/metrics")
    assert len(server.asked) == 4


async def test_no_answer_is_no_permission_and_is_not_remembered():
    server = Server()
    reviews = Reviews(server)
    server.away = True
    assert await reviews.judge("good", "get", "/metrics") == 500
    server.away = False
    assert await reviews.judge("good", "get", "/metrics") == 200


async def test_a_caller_beyond_the_limit_of_waiting_ones_gets_429():
    """Or anybody who can reach the port could fill our memory, with tokens that nobody knows."""
    answering = asyncio.Event()
    answering.set()

    class Slow(Server):
        async def post(self, path, body, params=None):
            await answering.wait()
            return await super().post(path, body, params)

    reviews = Reviews(Slow())
    assert await reviews.judge("good", "get", "/metrics") == 200
    answering.clear()
    crowd = [asyncio.create_task(reviews.judge(f"bad{n}", "get", "/metrics")) for n in range(150)]
    await asyncio.sleep(0)
    sent_away = [each.result() for each in crowd if each.done()]
    assert sent_away == [429] * 50
    assert await reviews.judge("good", "get", "/metrics") == 200, "a verdict is known"

    answering.set()
    assert set(await asyncio.gather(*crowd)) == {401, 429}
    assert await reviews.judge("bad", "get", "/metrics") == 401
