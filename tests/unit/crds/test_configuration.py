"""One object followed: what it wants is offered, what came of it is written down, by the leader."""

import asyncio
import contextlib
import json

import pytest

from scheduler.config.change import RETRY_SECONDS, Outcome, Result
from scheduler.crds.configuration import ConfigurationResource
from scheduler.crds.status import Seen
from scheduler.errors import Conflict, Unreachable
from scheduler.testing.clock import in_virtual_time

GOOD = Outcome(Result.APPLIED, (), "f00", ("a",))
BAD = Outcome(Result.INVALID, ("x: y",), "f00", ("a",))
FORBIDDEN = Outcome(Result.FORBIDDEN, ("no",), "f00", ("a",))


class Site:
    """An object, who is offered what it wants, and the API server that its status is written to."""

    def __init__(self):
        self.leads = True
        self.outcomes = {}
        self.offered = []
        self.written = []
        self.failures = []
        self.refused = False
        self.events = []
        self.resource = ConfigurationResource(
            "main", self.offer, self, self.events.append, self.forget, lambda: self.leads
        )

    async def offer(self, text):
        self.offered.append(text)
        await asyncio.sleep(0.1)
        outcome = self.outcomes.get(text, GOOD)
        self.refused = not outcome.good
        return outcome

    def forget(self):
        self.refused = False

    async def patch(self, path, body, content_type):
        assert path.endswith("/schedulerconfigurations/main/status")
        assert content_type == "application/merge-patch+json"
        if self.failures:
            raise self.failures.pop()
        self.written.append(json.loads(body))
        return b"{}"

    def deliver(self, generation, text, uid="one", **status):
        self.resource.on_changed(Seen(uid, generation, text, status))

    def active(self):
        """Return what was written last of the condition Active: its generation and its status."""
        status = self.written[-1]["status"]
        return status["observedGeneration"], status["conditions"][1]["status"]


@contextlib.asynccontextmanager
async def following():
    site = Site()
    tasks = [
        asyncio.create_task(work) for work in (site.resource.consider(), site.resource.write())
    ]
    yield site
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@in_virtual_time
async def test_the_outcome_is_written_once_and_under_the_uid():
    async with following() as site:
        assert "does not exist yet" in site.resource.check()
        site.deliver(1, "first")
        await asyncio.sleep(5)

        assert site.offered == ["first"]
        assert site.resource.check() is None
        (written,) = site.written
        assert written["metadata"] == {"uid": "one"}
        assert site.active() == (1, "True")
        assert [event.reason for event in site.events] == ["ConfigurationApplied"]

        # The watch reports our own write: there is nothing to do.
        site.deliver(1, "first", **written["status"])
        await asyncio.sleep(5)
        assert (len(site.offered), len(site.written)) == (1, 1)


@in_virtual_time
async def test_of_many_changes_the_newest_is_offered():
    async with following() as site:
        site.outcomes["third"] = BAD
        site.deliver(1, "first")
        await asyncio.sleep(0.05)
        site.deliver(2, "second")
        site.deliver(3, "third")
        await asyncio.sleep(5)

        assert site.offered == ["first", "third"]
        assert site.active() == (3, "False")
        assert site.written[-1]["status"]["activeGeneration"] == 1


@in_virtual_time
async def test_a_standby_writes_once_it_leads():
    async with following() as site:
        site.leads = False
        site.deliver(1, "first")
        await asyncio.sleep(5)
        assert (site.offered, site.written, site.events) == (["first"], [], [])

        site.leads = True
        await asyncio.sleep(2)
        assert site.active() == (1, "True")


@in_virtual_time
async def test_what_may_pass_is_tried_again():
    async with following() as site:
        site.outcomes["first"] = FORBIDDEN
        site.deliver(1, "first")
        await asyncio.sleep(RETRY_SECONDS * 2.5)
        assert site.offered == ["first"] * 3
        assert len(site.events) == 1

        site.outcomes["first"] = GOOD
        await asyncio.sleep(RETRY_SECONDS * 3)
        assert site.offered == ["first"] * 4
        assert site.active() == (1, "True")


@in_virtual_time
async def test_a_status_that_could_not_be_written_is_written_later():
    async with following() as site:
        site.failures = [Unreachable("away")] * 2
        site.deliver(1, "first")
        await asyncio.sleep(30)

        assert site.active() == (1, "True")


@in_virtual_time
async def test_a_successor_of_the_same_name_does_not_get_its_predecessors_status():
    async with following() as site:
        site.failures = [Conflict("another UID")]
        site.deliver(1, "first")
        await asyncio.sleep(5)
        assert site.written == []

        site.resource.on_deleted("one")
        site.outcomes["other"] = BAD
        site.deliver(1, "other", uid="two")
        await asyncio.sleep(5)
        assert site.written[-1]["metadata"] == {"uid": "two"}
        assert site.written[-1]["status"]["activeGeneration"] is None
        reasons = [event.reason for event in site.events]
        assert reasons == ["ConfigurationApplied", "ConfigurationDeleted", "ConfigurationRefused"]


@pytest.mark.parametrize("seconds", [5, 0.05], ids=["once judged", "while it is judged"])
@in_virtual_time
async def test_an_object_that_was_refused_and_is_gone_is_refused_no_more(seconds):
    async with following() as site:
        site.outcomes["first"] = Outcome(Result.INVALID, ("x: y",), "", ())
        site.deliver(1, "first")
        await asyncio.sleep(seconds)
        site.resource.on_deleted("one")
        await asyncio.sleep(5)

        assert site.offered == ["first"]
        assert not site.refused
        assert "does not exist yet" in site.resource.check()


@in_virtual_time
async def test_after_a_defect_the_newest_generation_is_offered_again():
    site = Site()
    site.deliver(1, "first")
    for offered in (["first"], ["first", "first"]):
        considering = asyncio.create_task(site.resource.consider())
        await asyncio.sleep(1)
        considering.cancel()
        assert site.offered == offered
