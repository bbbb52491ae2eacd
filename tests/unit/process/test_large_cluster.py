"""Lists of a large cluster leave the loop time for others: work is counted between two rounds."""

import asyncio
import contextlib
import json

import pytest

from scheduler.kube.slices import SLICE_BYTES, SLICE_OBJECTS
from scheduler.kube.watch_observer import SilentWatches
from scheduler.kube.watched import FAILED_PODS, NODES, PODS
from scheduler.model.fact import Added, Listed
from scheduler.process.watches import Watches

WATCHED = (PODS, FAILED_PODS, NODES)
END = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}


class EagerServer:
    """Delivers objects without a pause, as from a buffer that is always full.

    Args:
        objects: How many objects each resource has.
        padding: How many bytes each is larger than usual.
    """

    def __init__(self, objects, *, padding=0):
        self.delivered = self.bytes = 0
        self.expired = asyncio.Event()
        padding = {"note": "x" * padding}
        self._lines = [
            self._line("ADDED", {"metadata": {"name": f"o{index}", "uid": f"u{index}"}, **padding})
            for index in range(objects)
        ]

    async def watch(self, path, params, *, silence_seconds):
        del path, params, silence_seconds
        expired = self.expired
        for line in self._lines:
            self.delivered += 1
            self.bytes += len(line)
            yield line
        yield self._line("BOOKMARK", END)
        await expired.wait()
        yield self._line("ERROR", {"code": 410})

    async def get(self, path, params=None):
        raise AssertionError(f"GET {path} {params}: nothing is read but the watch")

    def expire(self):
        self.expired.set()
        self.expired = asyncio.Event()

    @staticmethod
    def _line(kind, content):
        return json.dumps({"type": kind, "object": content}).encode()


class Rounds:
    """Counts what the server delivered between two rounds of the event loop."""

    def __init__(self, server):
        self._server = server
        self.most = self.most_bytes = 0

    async def count_until(self, holds):
        while not holds():
            delivered, size = self._server.delivered, self._server.bytes
            await asyncio.sleep(0)
            self.most = max(self.most, self._server.delivered - delivered)
            self.most_bytes = max(self.most_bytes, self._server.bytes - size)


@contextlib.asynccontextmanager
async def watching(server):
    facts = []
    watches = Watches(server, facts.append, SilentWatches(), WATCHED)
    task = asyncio.create_task(watches.run())
    yield watches, facts
    task.cancel()
    await asyncio.wait((task,))


@pytest.mark.parametrize("padding", [0, 100_000])
async def test_a_start_and_a_relist_are_done_in_slices(padding):
    """A slice of each watch lies between two rounds, and no more; large objects make it smaller."""
    objects = 10 * SLICE_OBJECTS if not padding else 50
    server = EagerServer(objects, padding=padding)
    rounds = Rounds(server)
    async with watching(server) as (watches, facts):
        reflectors = watches.reflectors.values()
        await rounds.count_until(lambda: all(each.lists == 1 for each in reflectors))
        assert sum(isinstance(fact, Added) for fact in facts) == 3 * objects
        assert sum(isinstance(fact, Listed) for fact in facts) == 3

        server.expire()
        await rounds.count_until(lambda: all(each.lists == 2 for each in reflectors))
        assert len(facts) == 3 * objects + 3

    assert server.delivered == 6 * objects
    assert rounds.most <= 3 * SLICE_OBJECTS
    assert rounds.most_bytes <= 3 * (SLICE_BYTES + 2 * padding)
