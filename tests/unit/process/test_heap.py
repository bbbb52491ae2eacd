"""What is listed at the start is exempt from garbage collection, without a long pause for it."""

import asyncio
import gc
import weakref
from itertools import pairwise

import pytest

from scheduler.process.heap import _FREEZE_OBJECTS, freeze_heap, freeze_while_listing
from scheduler.testing.clock import in_virtual_time


class Thing:
    """Something that can refer to itself, and be referred to weakly."""

    def __init__(self):
        self.others = []


@pytest.fixture(autouse=True)
def _restore():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


@in_virtual_time
async def test_the_collector_is_off_while_a_cluster_is_listed_and_rarer_afterwards():
    listed = False
    freezing = asyncio.create_task(freeze_while_listing(lambda: listed))
    await asyncio.sleep(1)
    assert not gc.isenabled()

    listed = True
    await freezing
    assert gc.isenabled()
    assert gc.get_threshold()[0] > 10_000


@in_virtual_time
async def test_what_is_listed_is_frozen_in_slices():
    listed, kept, frozen = False, [], []
    freezing = asyncio.create_task(freeze_while_listing(lambda: listed))
    await asyncio.sleep(1)
    for _ in range(4):
        frozen.append(gc.get_freeze_count())
        kept += [Thing() for _ in range(_FREEZE_OBJECTS)]
        await asyncio.sleep(1)
    kept += [Thing() for _ in range(100)]
    frozen.append(gc.get_freeze_count())
    listed = True
    await freezing

    steps = [later - earlier for earlier, later in pairwise(frozen)]
    assert all(step >= _FREEZE_OBJECTS for step in steps)
    # All is frozen in the end: what came last as well.
    assert gc.get_freeze_count() >= frozen[-1] + 100


@in_virtual_time
async def test_what_was_frozen_before_the_event_loop_ran_costs_it_nothing():
    """`app.run` freezes first: 50 ms in one step of the event loop otherwise."""
    kept = [Thing() for _ in range(5 * _FREEZE_OBJECTS)]
    freeze_heap()
    visited = []
    gc.callbacks.append(lambda phase, _: phase == "start" and visited.append(len(gc.get_objects())))

    try:
        freezing = asyncio.create_task(freeze_while_listing(lambda: True))
        await freezing
    finally:
        gc.callbacks.pop()

    assert kept
    assert visited
    assert max(visited) < _FREEZE_OBJECTS


@in_virtual_time
async def test_garbage_of_the_start_is_freed_and_not_frozen():
    freezing = asyncio.create_task(freeze_while_listing(lambda: False))
    await asyncio.sleep(1)
    cycle = Thing()
    cycle.others.append(cycle)
    gone = weakref.ref(cycle)
    del cycle
    kept = [Thing() for _ in range(_FREEZE_OBJECTS)]
    await asyncio.sleep(1)

    assert kept
    assert gone() is None
    freezing.cancel()


@in_virtual_time
async def test_a_process_that_ends_while_it_lists_turns_the_collector_on():
    freezing = asyncio.create_task(freeze_while_listing(lambda: False))
    await asyncio.sleep(1)
    freezing.cancel()
    await asyncio.wait((freezing,))

    assert gc.isenabled()
