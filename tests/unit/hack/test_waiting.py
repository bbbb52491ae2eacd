"""Waiting for what other processes do."""

import asyncio

import pytest

from hack.waiting import NotInTimeError, until, until_async


def test_it_returns_the_first_answer_that_is_true():
    answers = iter([None, [], "there", "later"])
    assert until(lambda: next(answers), seconds=60, poll_seconds=0) == "there"


def test_a_missed_deadline_names_the_condition():
    with pytest.raises(NotInTimeError, match="still not so after 0 s: a node is there"):
        until(lambda: None, "a node is there", seconds=0, poll_seconds=0)


async def test_other_tasks_run_while_one_waits():
    there = []
    asyncio.get_running_loop().call_soon(there.append, "there")

    assert await until_async(lambda: there, seconds=60, poll_seconds=0) == ["there"]
    with pytest.raises(NotInTimeError, match="still not so after 0 s: a node is there"):
        await until_async(lambda: None, "a node is there", seconds=0, poll_seconds=0)
