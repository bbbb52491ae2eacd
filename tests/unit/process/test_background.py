"""Tasks beside the loop, and what their end means."""

import asyncio

import pytest

from scheduler.process.background import (
    STUCK_SECONDS,
    Heartbeat,
    cancel,
    measure_loop_lag,
    restart_forever,
    run_and_wait,
)
from scheduler.testing.clock import in_virtual_time


async def test_a_background_task_ends_only_by_breaking():
    async def work():
        await asyncio.sleep(0)

    async def breaks():
        await asyncio.sleep(0)
        raise LookupError("a defect")

    done_its_part, broken = (asyncio.create_task(run_and_wait(each())) for each in (work, breaks))
    done, _ = await asyncio.wait((done_its_part, broken), return_when=asyncio.FIRST_COMPLETED)
    done_its_part.cancel()

    assert done == {broken}
    with pytest.raises(LookupError):
        broken.result()


@in_virtual_time
async def test_what_may_break_is_reported_and_restarted_after_a_pause():
    starts, reported = [], []

    async def work():
        starts.append(asyncio.get_running_loop().time())
        if len(starts) == 1:
            raise LookupError("a defect")
        await asyncio.sleep(1000)

    task = asyncio.create_task(restart_forever(work, reported.append, 30))
    await asyncio.sleep(100)
    task.cancel()

    assert [str(each) for each in reported] == ["a defect"]
    assert starts[1] - starts[0] == pytest.approx(30, abs=0.01)


async def test_the_exception_of_a_cancelled_task_is_raised():
    async def breaks():
        raise LookupError("a defect")

    broken, waiting = asyncio.create_task(breaks()), asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)

    with pytest.raises(LookupError):
        await cancel(broken, waiting)
    assert waiting.cancelled()


def test_a_loop_that_runs_nothing_for_a_minute_is_stuck():
    now = 100.0
    heartbeat = Heartbeat(lambda: now)
    now += STUCK_SECONDS
    assert heartbeat.check() is None

    now += 1
    assert heartbeat.check() == "no task has run for 61s"

    heartbeat.beat()
    assert heartbeat.check() is None


class Lags:
    """Keeps what telemetry is told."""

    def __init__(self):
        self.told = []

    def loop_stalled(self, seconds, cpu_seconds):
        self.told.append((seconds, cpu_seconds))


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        pytest.param(0.25, (2.0, 0.25), id="it got no CPU"),
        pytest.param(2.25, (2.0, 2.0), id="it computed, a little before it was late as well"),
    ],
)
@in_virtual_time
async def test_a_loop_that_computes_is_told_from_one_that_gets_no_cpu(computed, expected):
    lags = Lags()
    clock, cpu_clock = iter((100.0, 102.5, 102.5)), iter((7.0, 7.0 + computed, 7.0 + computed))
    task = asyncio.create_task(
        measure_loop_lag(lags, Heartbeat(), lambda: next(clock), lambda: next(cpu_clock))
    )
    await asyncio.sleep(0.75)
    task.cancel()

    assert lags.told == [expected]
