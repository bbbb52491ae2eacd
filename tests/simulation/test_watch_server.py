"""The simulated watches behave as the real ones do, where reflectors can tell the difference."""

import asyncio
import random

import pytest

from scheduler.errors import Throttled
from scheduler.kube.reflector import Reflector
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Added, Deleted, Listed, Resource, Updated
from scheduler.testing import make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.simulated_api import SimulatedApi
from tests.simulation.watch_server import WatchServer

WATCHING = (Resource.POD, Resource.FAILED_POD)


class WatchedCluster:
    """An API server, and a reflector of each kind of pods."""

    def __init__(self, *, streams_lists=True):
        self.api = SimulatedApi(watching=())
        self.delivered = {resource: [] for resource in WATCHING}
        self.problem = None
        self.server = WatchServer(
            self.api,
            WATCHING,
            latency=lambda: 0.01,
            lag=lambda: 0.1,
            choose_error=lambda _: self.problem,
            streams_lists=streams_lists,
        )
        self.tasks = [
            asyncio.create_task(
                Reflector(
                    self.server,
                    WATCHED[resource],
                    self.delivered[resource].append,
                    clock=asyncio.get_running_loop().time,
                    rng=random.Random(0),
                ).run()
            )
            for resource in WATCHING
        ]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def take(self, resource=Resource.POD):
        """Return what was delivered since the last call: kind and name of each fact."""
        facts, self.delivered[resource][:] = list(self.delivered[resource]), []
        return [_spell(fact) for fact in facts]


def _spell(fact):
    match fact:
        case Listed():
            return "listed"
        case Added(new=new):
            return f"{new.name} added"
        case Updated(new=new):
            return f"{new.name} updated"
        case Deleted(old=old, seen=seen):
            return f"{old.name} deleted" if seen else f"{old.name} missing"


@pytest.mark.parametrize("streams_lists", [True, False], ids=["stream", "pages"])
@in_virtual_time
async def test_what_is_there_is_listed_and_changes_follow_in_order(streams_lists):
    async with WatchedCluster(streams_lists=streams_lists) as world:
        first = world.api.create(make_pod("a"))
        await asyncio.sleep(2)
        assert world.take() == ["a added", "listed"]

        world.api.create(make_pod("b"))
        world.api.change(first, lambda d: d["metadata"]["labels"].update(x="y"))
        world.api.remove(first)
        assert world.take() == []
        await asyncio.sleep(2)
        assert world.take() == ["b added", "a updated", "a deleted"]


@in_virtual_time
async def test_a_pod_that_fails_leaves_one_watch_and_enters_the_other():
    async with WatchedCluster() as world:
        path = world.api.create(make_pod("a", node="n"))
        await asyncio.sleep(2)
        world.take()
        world.api.change(path, lambda d: d["status"].update(phase="Failed"))
        await asyncio.sleep(2)

        assert world.take() == ["a deleted"]
        assert world.take(Resource.FAILED_POD) == ["listed", "a added"]


@pytest.mark.parametrize("why", ["", "connection reset by peer"])
@in_virtual_time
async def test_a_broken_watch_goes_on_where_it_was(why):
    async with WatchedCluster() as world:
        await asyncio.sleep(2)
        world.server.cut(Resource.POD, why)
        path = world.api.create(make_pod("a"))
        world.api.remove(path)
        await asyncio.sleep(5)

        assert world.take() == ["listed", "a added", "a deleted"]


@in_virtual_time
async def test_a_watch_whose_history_is_gone_lists_again_and_skips_what_was_between():
    async with WatchedCluster() as world:
        gone, again = make_pod("gone"), make_pod("again", uid="first")
        world.api.create(gone)
        world.api.create(again)
        await asyncio.sleep(2)
        world.take()
        world.server.cut(Resource.POD)
        world.api.remove(pod_path(gone))
        world.api.remove(pod_path(again))
        world.api.create(make_pod("again", uid="second"))
        world.api.remove(world.api.create(make_pod("never seen")))
        world.server.compact(Resource.POD)
        await asyncio.sleep(5)

        assert world.take() == ["again missing", "again added", "gone missing"]


@in_virtual_time
async def test_a_silent_watch_is_given_up_whatever_happens_meanwhile():
    async with WatchedCluster() as world:
        await asyncio.sleep(2)
        world.take()
        world.server.hang(Resource.POD)
        for name in ("a", "b", "c"):
            await asyncio.sleep(28)
            world.api.create(make_pod(name))
        assert world.take() == []
        await asyncio.sleep(70)

        assert world.take() == ["a added", "b added", "c added"]


@in_virtual_time
async def test_bookmarks_let_an_idle_watch_survive_compaction():
    async with WatchedCluster() as world:
        await asyncio.sleep(2)
        world.api.create(make_pod("fails", status={"phase": "Failed"}))
        await asyncio.sleep(70)
        assert world.take() == ["listed"]
        world.server.compact(Resource.POD)
        world.server.cut(Resource.POD)
        world.api.create(make_pod("a"))
        await asyncio.sleep(5)

        assert world.take() == ["a added"]


@in_virtual_time
async def test_a_server_in_trouble_is_asked_again():
    async with WatchedCluster() as world:
        world.problem = Throttled("slow down", retry_after_seconds=3)
        await asyncio.sleep(1)
        world.problem = None
        await asyncio.sleep(2)
        assert world.take() == []
        await asyncio.sleep(3)

        assert world.take() == ["listed"]
