"""Drift: what a watch never delivered is corrected; what has not arrived yet is no drift."""

import asyncio
import contextlib
import json
import random
from itertools import pairwise

import msgspec
import pytest

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.kube.reflector import Reflector
from scheduler.kube.slices import SLICE_OBJECTS
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Added, Deleted, Resource, Updated
from scheduler.model.meta import ObjectMeta
from scheduler.observe.metrics import Metrics
from scheduler.process.cache_comparer import CacheComparer
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.telemetry import Telemetry
from scheduler.testing.clock import in_virtual_time


def a_node(name, version, **labels):
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": version, "labels": labels},
        "status": {"allocatable": {"cpu": "4"}},
    }


class Site:
    """A server's nodes, a reflector that receives some of them, and a loop that applies facts."""

    def __init__(self):
        self.there = {}
        self.meanwhile = lambda: None
        self.slept = 0
        self.cache, self.inbox, self.metrics = ClusterCache(), Inbox(), Metrics()
        self.watched = WATCHED[Resource.NODE]
        self.reflector = Reflector(None, self.watched, self.inbox.put)
        self.comparer = CacheComparer(
            self,
            self,
            {Resource.NODE: self.reflector},
            self.cache,
            self.inbox,
            Telemetry(self.metrics),
            sleep=self.sleep,
            rng=random.Random(1),
        )

    async def get(self, path, params=None):
        del path, params
        return json.dumps({"metadata": {}, "items": list(self.there.values())}).encode()

    async def sleep(self, _seconds):
        self.slept += 1
        self.meanwhile()

    def put(self, document, *, watched=True):
        self.there[document["metadata"]["name"]] = document
        if watched:
            self.deliver(document)

    def deliver(self, document):
        found = self.reflector._decoder.item(json.dumps(document).encode())
        self.reflector.correct(("", found.name), found)

    def apply(self):
        while (message := self.inbox.take()) is not None:
            match message:
                case Added(new=new) | Updated(new=new):
                    self.cache.update_node(new)
                case Deleted(old=old):
                    self.cache.remove_node(old.name)
                case _:
                    message()

    async def compare(self):
        comparing = asyncio.create_task(self.comparer.compare())
        while not comparing.done():
            self.apply()
            await asyncio.sleep(0)
        self.apply()
        return await comparing

    def known(self):
        return {node.name: dict(node.metadata.labels) for node in self.cache.nodes()}

    def count(self, kind):
        labels = {"resource": "Node", "kind": kind}
        return self.metrics.registry.get_sample_value("py_scheduler_cache_drift_total", labels)


@pytest.fixture
def site():
    site = Site()
    for name in ("a", "b"):
        site.put(a_node(name, "1"))
    site.apply()
    return site


async def test_an_equal_cache_costs_one_list(site):
    assert not await site.compare()
    assert not site.slept
    found = site.metrics.registry.get_sample_value(
        "py_scheduler_cache_comparisons_total", {"result": "equal"}
    )
    assert found == 1


async def test_what_the_watch_never_delivered_is_corrected(site):
    site.put(a_node("c", "5"), watched=False)
    site.put(a_node("a", "6", disk="fast"), watched=False)
    del site.there["b"]

    assert await site.compare()
    assert site.known() == {"a": {"disk": "fast"}, "c": {}}
    assert [site.count(kind) for kind in ("missing", "redundant", "outdated")] == [1, 1, 1]
    assert not await site.compare()


async def test_what_has_not_arrived_yet_is_no_drift(site):
    new = a_node("a", "6", disk="fast")
    site.put(new, watched=False)
    site.meanwhile = lambda: site.deliver(new)

    assert not await site.compare()
    assert site.slept == 1
    assert site.known()["a"] == {"disk": "fast"}


async def test_an_object_that_keeps_changing_is_no_drift(site):
    site.put(a_node("a", "6", disk="fast"), watched=False)
    site.meanwhile = lambda: site.put(a_node("a", "7", disk="slow"), watched=False)

    assert not await site.compare()


async def test_a_cache_that_lost_an_object_is_corrected(site):
    site.cache.remove_node("a")

    assert await site.compare()
    assert site.known().keys() == {"a", "b"}
    assert site.count("missing") == 1


async def test_it_runs_on_request(site):
    compare_now = asyncio.Event()
    running = asyncio.create_task(site.comparer.run(0, compare_now))
    compare_now.set()
    while (
        site.metrics.registry.get_sample_value(
            "py_scheduler_cache_comparisons_total", {"result": "equal"}
        )
        is None
    ):
        site.apply()
        await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_nothing_is_compared_while_a_watch_lists(site):
    """Both would list the whole cluster, from an API server that may just have started."""
    compare_now, listed = asyncio.Event(), asyncio.Event()
    listed_after = []
    site.reflector.is_listing = True

    def meanwhile():
        site.reflector.is_listing = site.slept < 3

    async def note(path, params=None):
        listed_after.append(site.slept)
        listed.set()
        return await Site.get(site, path, params)

    site.meanwhile, site.get = meanwhile, note
    running = asyncio.create_task(site.comparer.run(0, compare_now))
    compare_now.set()
    await listed.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert listed_after == [3]


async def test_a_node_under_the_name_of_another_is_corrected(site):
    stale = site.cache.node("a")
    site.cache.remove_node("a")
    site.cache.add_node(msgspec.structs.replace(stale, metadata=ObjectMeta(name="a", uid="old")))

    assert await site.compare()
    assert site.cache.node("a").metadata.uid == "a"
    assert not await site.compare()


async def test_facts_are_applied_while_a_large_cache_is_compared(site):
    """A change between two slices is no drift, whichever side has it first."""
    names = [f"n{number}" for number in range(3 * SLICE_OBJECTS)]
    for name in names:
        site.put(a_node(name, "1"))
    site.apply()
    comparing = asyncio.create_task(site.comparer.compare())
    rounds = 0
    while not comparing.done():
        rounds += 1
        if names and rounds % 2:
            name = names.pop()
            del site.there[name]
            site.reflector.correct(("", name), None)
            site.put(a_node(f"new-{name}", "1"))
        site.apply()
        await asyncio.sleep(0)

    assert not await comparing
    assert rounds > 6


@in_virtual_time
async def test_comparisons_are_spread_at_random():
    """Replicas that start together do not list the whole cluster together."""
    site = Site()
    began = []

    async def note(path, params=None):
        began.append(asyncio.get_running_loop().time())
        return await Site.get(site, path, params)

    site.get = note

    async def apply():
        while True:
            site.apply()
            await asyncio.sleep(1)

    tasks = [
        asyncio.create_task(site.comparer.run(300, asyncio.Event())),
        asyncio.create_task(apply()),
    ]
    await asyncio.sleep(50 * 300)
    for task in tasks:
        task.cancel()

    pauses = [later - earlier for earlier, later in pairwise(began)]
    assert len(pauses) > 40
    assert 150 <= min(pauses) < 200
    assert 400 < max(pauses) < 460
