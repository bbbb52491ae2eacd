"""The keeper: the election in its own thread."""

import asyncio
import contextlib
import json
import time

import pytest

from hack.waiting import until_async
from scheduler.kube.election import encode_lease
from scheduler.kube.lease import LeaseKeeper, LeaseObserver, suspend_aware_seconds
from tests.unit.kube.leases import LeaseApi, held_by, settings

PATH = settings().path
QUICK = {"lease_seconds": 1, "renew_deadline_seconds": 0.6, "retry_seconds": 0.05}
PATIENT = {"lease_seconds": 60, "renew_deadline_seconds": 40, "retry_seconds": 20}
"""So long that whoever asked would have to wait."""


class Stage:
    def __init__(self):
        self.api = LeaseApi()
        self.losses = []
        self.keepers = []

    def keeper(self, identity="us", **options):
        @contextlib.asynccontextmanager
        async def connect():
            yield self.api

        times = options.pop("times", QUICK)
        keeper = LeaseKeeper(
            settings(identity, **times), connect, on_lost=self.losses.append, **options
        )
        self.keepers.append(keeper)
        keeper.start()
        return keeper


@pytest.fixture
async def stage():
    stage = Stage()
    yield stage
    stage.api.down = False
    for keeper in stage.keepers:
        assert await keeper.release()


async def until(holds):
    await until_async(holds, seconds=60.0)


async def test_a_lone_keeper_leads_and_releases(stage):
    keeper = stage.keeper()

    assert await keeper.wait_until_leading()
    assert keeper.is_leading
    assert stage.api.holder == "us"

    assert await keeper.release()
    assert not keeper.is_leading
    assert stage.api.holder == ""
    assert stage.losses == []


async def test_a_blocked_event_loop_does_not_cost_the_lease(stage):
    keeper = stage.keeper()
    await keeper.wait_until_leading()

    time.sleep(1.2)  # noqa: ASYNC251 - twice the renew deadline, on purpose

    assert keeper.is_leading
    assert stage.losses == []


async def test_a_released_lease_is_taken_over_without_waiting_for_expiry(stage):
    first = stage.keeper("first", times=PATIENT)
    await first.wait_until_leading()
    second = stage.keeper("second", times=PATIENT)
    await until(lambda: stage.api.listeners)
    assert not second.is_leading

    await first.release()

    async with asyncio.timeout(PATIENT["lease_seconds"] / 2):
        assert await second.wait_until_leading()
    assert stage.api.holder == "second"


async def test_a_release_survives_a_renewal_that_lands_in_its_middle(stage):
    keeper = stage.keeper()
    await keeper.wait_until_leading()
    put, interruptions = stage.api.put, ["a late renewal"]

    async def interrupted(path, body, params=None):
        if interruptions and json.loads(body)["spec"]["holderIdentity"] == "":
            interruptions.pop()
            stage.api.leases[path]["metadata"]["resourceVersion"] = "999"
        return await put(path, body)

    stage.api.put = interrupted
    await keeper.release()

    assert stage.api.holder == ""
    assert not interruptions


async def test_an_unreachable_server_costs_the_lease_at_the_renew_deadline(stage):
    keeper = stage.keeper()
    await keeper.wait_until_leading()

    stage.api.down = True
    await until(lambda: stage.losses)

    assert not keeper.is_leading
    assert stage.losses == ["the renew deadline passed"]


async def test_a_lease_that_was_lost_is_left_alone(stage):
    keeper = stage.keeper()
    await keeper.wait_until_leading()
    stage.api.leases[PATH] = json.loads(encode_lease(held_by("them", version="77")))

    await until(lambda: stage.losses)
    await keeper.release()

    assert stage.losses == ["held by them"]
    assert stage.api.holder == "them"


async def test_leading_ends_by_time_even_before_the_keeper_notices(stage):
    """A suspended machine: the clock jumped, and no thread has run since."""
    skipped = [0.0]
    keeper = stage.keeper(clock=lambda: suspend_aware_seconds() + skipped[0])
    await keeper.wait_until_leading()

    skipped[0] = 60.0

    assert not keeper.is_leading
    await until(lambda: stage.losses)


async def test_a_keeper_released_before_it_leads_says_so(stage):
    await stage.keeper("first").wait_until_leading()
    second = stage.keeper("second")
    waiting = asyncio.create_task(second.wait_until_leading())
    await until(lambda: stage.api.listeners)

    await second.release()

    assert await waiting is False
    assert stage.api.holder == "first"


async def test_a_cancelled_wait_does_not_end_the_keeper(stage):
    await stage.keeper("first").wait_until_leading()
    second = stage.keeper("second")
    waiting = asyncio.create_task(second.wait_until_leading())
    await until(lambda: stage.api.listeners)
    waiting.cancel()

    await stage.keepers[0].release()

    assert await second.wait_until_leading()


# The watch of a standby.


async def test_a_standby_with_a_watch_sends_no_reads(stage):
    stage.api.store(PATH, held_by("them"))
    keeper = stage.keeper(times=PATIENT)
    await until(lambda: stage.api.listeners)
    gets = stage.api.gets

    stage.api.store(PATH, held_by("", renewed="r2"))

    assert await keeper.wait_until_leading()
    assert stage.api.gets == gets
    assert stage.api.watches == [
        {
            "path": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
            "fieldSelector": "metadata.name=py-scheduler",
            "resourceVersion": "1",
        }
    ]


async def test_a_leader_watches_nothing(stage):
    stage.api.store(PATH, held_by("them", seconds=1))
    keeper = stage.keeper()
    await until(lambda: stage.api.listeners)

    assert await keeper.wait_until_leading()

    await until(lambda: not stage.api.listeners)


async def test_a_watch_that_sends_nothing_more_delays_a_standby_only_briefly(stage):
    stage.api.store(PATH, held_by("them"))
    keeper = stage.keeper()
    await until(lambda: stage.api.listeners)

    stage.api.mute = True
    stage.api.store(PATH, held_by("", renewed="r2"))

    assert await keeper.wait_until_leading()


async def test_a_broken_watch_is_opened_anew_where_it_ended(stage):
    api = stage.api
    api.store(PATH, held_by("them", seconds=60))
    keeper = stage.keeper()
    await until(lambda: api.listeners)
    api.store(PATH, held_by("them", renewed="r2", seconds=60))
    await until(lambda: api.sent == 2)
    api.down = True
    await until(lambda: not api.listeners)

    api.down = False

    await until(lambda: api.listeners)
    assert api.watches[-1]["resourceVersion"] == "2"
    assert not keeper.is_leading


async def test_a_silent_watch_is_opened_anew(stage):
    stage.api.store(PATH, held_by("them", seconds=60))
    stage.keeper()
    await until(lambda: stage.api.listeners)

    stage.api.mute = True

    await until(lambda: len(stage.api.watches) > 1)


async def test_a_refused_watch_is_reported_once_and_the_lease_is_read(stage):
    class Heard(LeaseObserver):
        def __init__(self):
            self.refusals = []

        def watch_refused(self, error):
            self.refusals.append(str(error))

    stage.api.may_watch = False
    stage.api.store(PATH, held_by("them", seconds=3))
    keeper = stage.keeper(observer=(heard := Heard()))
    await until(lambda: len(stage.api.watches) > 1)

    stage.api.store(PATH, held_by("", renewed="r2"))

    assert await keeper.wait_until_leading()
    assert heard.refusals == ["leases is forbidden: cannot watch"]


async def test_an_answer_that_is_no_event_is_no_end(stage):
    stage.api.store(PATH, held_by("them", seconds=1))
    stage.api.events.append((2, b"<html>"))
    keeper = stage.keeper()

    assert await keeper.wait_until_leading()


async def test_a_watch_that_gets_an_error_begins_again(stage):
    stage.api.store(PATH, held_by("them", seconds=60))
    stage.api.events.append((2, b'{"type":"ERROR","object":{"kind":"Status","code":410}}'))
    stage.keeper()

    await until(lambda: len(stage.api.watches) > 1)


async def test_a_deleted_lease_is_taken_when_it_would_have_expired(stage):
    stage.api.store(PATH, held_by("them", seconds=1))
    keeper = stage.keeper()
    await until(lambda: stage.api.listeners)

    stage.api.remove(PATH)

    assert await keeper.wait_until_leading()
    assert stage.api.holder == "us"


async def test_a_defect_of_the_watch_ends_the_keeper(stage):
    def broken(*_, **__):
        raise ZeroDivisionError("a defect")

    stage.api.store(PATH, held_by("them", seconds=60))
    stage.api.watch = broken
    keeper = stage.keeper()

    with pytest.raises(ZeroDivisionError):
        await keeper.wait_until_leading()
    await until(lambda: stage.losses)
    assert stage.losses == ["the keeper failed: ZeroDivisionError('a defect')"]


# Its end.


async def test_a_keeper_that_breaks_raises_in_waiting_callers_and_ends_the_standby():
    """It would look like one for ever, and never lead."""

    def connect():
        raise ZeroDivisionError("a defect")

    losses = []
    keeper = LeaseKeeper(settings(), connect, on_lost=losses.append)
    keeper.start()

    with pytest.raises(ZeroDivisionError):
        await keeper.wait_until_leading()
    assert await keeper.release()
    assert losses == ["the keeper failed: ZeroDivisionError('a defect')"]


async def test_a_keeper_that_was_never_started_can_be_released():
    keeper = LeaseKeeper(settings(), lambda: None, on_lost=lambda _: None)

    assert await keeper.release()
    assert not keeper.is_leading


async def test_holders_and_failures_are_reported(stage):
    class Heard(LeaseObserver):
        def __init__(self):
            self.holders, self.failures = [], []

        def holder_changed(self, holder):
            self.holders.append(holder)

        def request_failed(self, error):
            self.failures.append(str(error))

    heard = Heard()
    stage.api.down = True
    keeper = stage.keeper(observer=heard)
    await until(lambda: heard.failures)
    stage.api.down = False
    await keeper.wait_until_leading()

    assert heard.failures[0] == "down"
    await until(lambda: heard.holders == ["us"])
