"""So many at a time; of those who wait, the most important is next."""

import asyncio

import pytest

from scheduler.preemption.priority_semaphore import PrioritySemaphore
from scheduler.testing.clock import in_virtual_time


class Office:
    """Everybody who is let in stays for a second."""

    def __init__(self, slots=1):
        self.semaphore = PrioritySemaphore(slots)
        self.came = []
        self.inside = self.most = 0

    def visit(self, name, priority=0):
        async def visit():
            async with self.semaphore.acquire(priority):
                self.came.append(name)
                self.inside += 1
                self.most = max(self.most, self.inside)
                await asyncio.sleep(1)
                self.inside -= 1

        return asyncio.create_task(visit())


@in_virtual_time
async def test_the_most_important_is_next_and_of_equals_the_earliest():
    office = Office()
    visits = [office.visit(*each) for each in (("a", 1), ("b", 1), ("c", 5), ("d", -1), ("e", 5))]
    await asyncio.gather(*visits)

    assert office.came == ["a", "c", "e", "b", "d"]


@pytest.mark.parametrize("slots", [1, 3, 10])
@in_virtual_time
async def test_never_more_are_inside_than_there_are_slots(slots):
    office = Office(slots)
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(office.visit(number, number % 3) for number in range(9)))

    assert office.most == min(slots, 9)
    took = asyncio.get_running_loop().time() - began
    assert took == pytest.approx(-(-9 // slots), abs=0.01)


@in_virtual_time
async def test_who_gives_up_waiting_takes_nobodys_place():
    office = Office()
    first, second, third = (office.visit(name) for name in "abc")
    await asyncio.sleep(0.5)
    second.cancel()
    await asyncio.gather(first, third)

    assert office.came == ["a", "c"]


@in_virtual_time
async def test_a_slot_handed_to_a_cancelled_waiter_goes_to_the_next():
    semaphore = PrioritySemaphore(1)
    came = []

    async def visit(name):
        async with semaphore.acquire(0):
            came.append(name)

    async with semaphore.acquire(0):
        waiting, patient = (asyncio.create_task(visit(name)) for name in ("waiting", "patient"))
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting, patient))

    assert came == ["patient"]
    async with asyncio.timeout(1), semaphore.acquire(0):
        pass
