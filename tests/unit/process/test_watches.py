"""More watches, as plugins come to need more; nothing is asked for twice."""

import asyncio
import contextlib
import json

from scheduler.errors import Rejected
from scheduler.kube.watch_observer import SILENT_WATCHES
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Added, Deleted, Listed, Resource, Updated
from scheduler.process.watches import Watches
from scheduler.testing.clock import in_virtual_time

NODES, CLASSES = WATCHED[Resource.NODE], WATCHED[Resource.STORAGE_CLASS]


def node(name):
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": {"a": "b"}},
        "status": {"allocatable": {"cpu": "4"}},
    }


class Server:
    """Lists by pages; watches are open and silent. What is in *slow* is never answered."""

    def __init__(self, **objects):
        self.objects = objects
        self.slow = set()
        self.lists = []

    async def get(self, path, params=None):
        del params
        plural = path.rpartition("/")[2]
        self.lists.append(plural)
        if plural in self.slow:
            await asyncio.Event().wait()
        page = {"metadata": {"resourceVersion": "5"}, "items": self.objects.get(plural, [])}
        return json.dumps(page).encode()

    async def watch(self, path, params, *, silence_seconds):
        del path, silence_seconds
        if "sendInitialEvents" in params:
            raise Rejected("no streaming here", status=400)
        await asyncio.Event().wait()
        yield b""


@contextlib.asynccontextmanager
async def watching(server, *watched):
    told = []
    watches = Watches(server, told.append, SILENT_WATCHES, watched)
    running = asyncio.create_task(watches.run())
    await asyncio.sleep(1)
    yield watches, told
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@in_virtual_time
async def test_what_is_new_was_told_when_the_wait_ends():
    server = Server(nodes=[node("a")], storageclasses=[{"metadata": {"name": "fast"}}])
    async with watching(server, NODES) as (watches, told):
        told.clear()

        assert await watches.widen([NODES, CLASSES], 30) == ""

        assert [type(fact) for fact in told] == [Added, Listed]
        assert told[-1].resource == Resource.STORAGE_CLASS
        assert await watches.widen([NODES, CLASSES], 30) == ""
        assert server.lists == ["nodes", "storageclasses"]


@in_virtual_time
async def test_what_is_read_with_more_in_it_is_told_as_updated():
    server = Server(nodes=[node("a")])
    async with watching(server, NODES) as (watches, told):
        told.clear()

        assert await watches.widen([NODES.with_annotations()], 30) == ""

        (fact,) = told
        assert isinstance(fact, Updated)
        assert dict(fact.new.metadata.annotations) == {"a": "b"}
        # Who needs no annotations does not take them from others.
        assert await watches.widen([NODES.with_raw()], 30) == ""
        assert told[-1].new.metadata.annotations == {"a": "b"}
        assert json.loads(told[-1].new.raw)["metadata"]["name"] == "a"
        assert watches.reflectors[Resource.NODE].watched.annotations


@in_virtual_time
async def test_what_is_not_listed_in_time_is_taken_back():
    server = Server(nodes=[node("a")])
    async with watching(server, NODES) as (watches, told):
        server.slow = {"storageclasses"}

        late = await watches.widen([NODES.with_annotations(), CLASSES], 30)

        assert late == str(Resource.STORAGE_CLASS)
        assert list(watches.reflectors) == [Resource.NODE]
        await asyncio.sleep(1)
        assert not watches.reflectors[Resource.NODE].watched.annotations
        assert not [fact for fact in told if isinstance(fact, Deleted)]


@in_virtual_time
async def test_whoever_watches_nothing_yet_only_takes_note():
    watches = Watches(Server(), [].append, SILENT_WATCHES, [NODES])

    assert await watches.widen([NODES.with_annotations(), CLASSES], 30) == ""

    assert list(watches.reflectors) == [Resource.NODE, Resource.STORAGE_CLASS]
    assert watches.reflectors[Resource.NODE].watched.annotations
