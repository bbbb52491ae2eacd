"""What the process is put together from holds together."""

import asyncio

import pytest

from scheduler.app import restart_forever, run_and_wait
from scheduler.testing.clock import in_virtual_time


async def test_what_runs_beside_the_loop_ends_the_process_only_by_breaking():
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
async def test_what_breaks_and_may_not_end_the_process_is_told_and_begun_anew():
    begun, told = [], []

    async def work():
        begun.append(asyncio.get_running_loop().time())
        if len(begun) == 1:
            raise LookupError("a defect")
        await asyncio.sleep(1000)

    task = asyncio.create_task(restart_forever(work, told.append, 30))
    await asyncio.sleep(100)
    task.cancel()

    assert [str(each) for each in told] == ["a defect"]
    assert begun[1] - begun[0] == pytest.approx(30, abs=0.01)
