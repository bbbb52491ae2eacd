"""What the process is put together from holds together."""

import asyncio

import pytest

from scheduler.app import until_broken


async def test_what_runs_beside_the_loop_ends_the_process_only_by_breaking():
    async def work():
        await asyncio.sleep(0)

    async def breaks():
        await asyncio.sleep(0)
        raise LookupError("a defect")

    done_its_part, broken = (asyncio.create_task(until_broken(each())) for each in (work, breaks))
    done, _ = await asyncio.wait((done_its_part, broken), return_when=asyncio.FIRST_COMPLETED)
    done_its_part.cancel()

    assert done == {broken}
    with pytest.raises(LookupError):
        broken.result()
