"""Tasks that report through the inbox."""

import asyncio

import pytest

from scheduler.reporting.inbox import Inbox
from scheduler.reporting.tasks import Tasks
from scheduler.testing.clock import in_virtual_time


@in_virtual_time
async def test_a_task_is_counted_until_it_ends_and_reports_to_the_loop():
    inbox, reports = Inbox(), []
    tasks = Tasks(inbox)

    async def work():
        await asyncio.sleep(1)
        tasks.report(lambda: reports.append("done"))

    tasks.start("pod", work())
    assert (len(tasks), list(tasks.subjects)) == (1, ["pod"])

    await asyncio.sleep(2)
    assert len(tasks) == 0
    assert reports == [], "only the loop makes the call"
    inbox.take()()
    assert reports == ["done"]


@in_virtual_time
async def test_a_defect_in_a_task_ends_the_loop():
    inbox = Inbox()
    tasks = Tasks(inbox)

    async def work():
        raise ZeroDivisionError

    tasks.start("pod", work())
    await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        inbox.take()()


@in_virtual_time
async def test_tasks_that_do_not_end_in_time_are_cancelled():
    inbox = Inbox()
    tasks = Tasks(inbox)
    tasks.start("quick", asyncio.sleep(1))
    tasks.start("slow", asyncio.sleep(100))
    began = asyncio.get_running_loop().time()

    await tasks.finish(5)

    assert len(tasks) == 0
    assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.01)
    assert inbox.take() is None, "a cancelled task is no defect"


@in_virtual_time
async def test_a_report_can_wait():
    inbox = Inbox()
    Tasks(inbox).report_later(3, lambda: None)

    await asyncio.sleep(2.9)
    assert len(inbox) == 0
    await asyncio.sleep(0.2)
    assert len(inbox) == 1
