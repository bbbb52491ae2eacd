"""Watches are added as plugins need them; nothing is listed twice."""

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
    facts = []
    watches = Watches(server, facts.append, SILENT_WATCHES, watched)
    running = asyncio.create_task(watches.run())
    await asyncio.sleep(1)
    yield watches, facts
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@in_virtual_time
async def test_what_is_new_is_listed_when_the_wait_ends():
    server = Server(nodes=[node("a")], storageclasses=[{"metadata": {"name": "fast"}}])
    async with watching(server, NODES) as (watches, facts):
        facts.clear()

        assert await watches.widen([NODES, CLASSES], 30) == ""

        assert [type(fact) for fact in facts] == [Added, Listed]
        assert facts[-1].resource == Resource.STORAGE_CLASS
        assert await watches.widen([NODES, CLASSES], 30) == ""
        assert server.lists == ["nodes", "storageclasses"]


@in_virtual_time
async def test_objects_with_more_fields_arrive_as_updates():
    server = Server(nodes=[node("a")])
    async with watching(server, NODES) as (watches, facts):
        facts.clear()

        assert await watches.widen([NODES.with_annotations()], 30) == ""

        (fact,) = facts
        assert isinstance(fact, Updated)
        assert dict(fact.new.metadata.annotations) == {"a": "b"}
        # A plugin that needs no annotations does not take them from others.
        assert await watches.widen([NODES.with_raw()], 30) == ""
        assert facts[-1].new.metadata.annotations == {"a": "b"}
        assert json.loads(facts[-1].new.raw)["metadata"]["name"] == "a"
        assert watches.reflectors[Resource.NODE].watched.annotations


@in_virtual_time
async def test_what_is_not_listed_in_time_is_not_watched():
    server = Server(nodes=[node("a")])
    async with watching(server, NODES) as (watches, facts):
        server.slow = {"storageclasses"}

        late = await watches.widen([NODES.with_annotations(), CLASSES], 30)

        assert late == str(Resource.STORAGE_CLASS)
        assert list(watches.reflectors) == [Resource.NODE]
        await asyncio.sleep(1)
        assert not watches.reflectors[Resource.NODE].watched.annotations
        assert not [fact for fact in facts if isinstance(fact, Deleted)]


@in_virtual_time
async def test_before_the_start_watches_are_only_added():
    watches = Watches(Server(), [].append, SILENT_WATCHES, [NODES])

    assert await watches.widen([NODES.with_annotations(), CLASSES], 30) == ""

    assert list(watches.reflectors) == [Resource.NODE, Resource.STORAGE_CLASS]
    assert watches.reflectors[Resource.NODE].watched.annotations
