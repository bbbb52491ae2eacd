import asyncio
import json
import random

import pytest

from scheduler.kube.access import Access
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.reflector import Reflector
from scheduler.kube.reflector_timeouts import ReflectorTimeouts, SharedBackoff
from scheduler.kube.slices import SLICE_OBJECTS
from scheduler.kube.watched import NODES, PODS, SERVICES
from scheduler.model.fact import Added, Deleted, Listed, Updated
from scheduler.model.pieces import PIECE_ENTRIES


def pod(name, version, *, uid="", node="", labels=None, **spec):
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels or {},
        },
        "spec": {"nodeName": node, "containers": [], **spec},
    }


def added(*args, **spec):
    return {"type": "ADDED", "object": pod(*args, **spec)}


def modified(*args, **spec):
    return {"type": "MODIFIED", "object": pod(*args, **spec)}


def deleted(*args, **spec):
    return {"type": "DELETED", "object": pod(*args, **spec)}


def error(code, message="because of the test"):
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": message}}


def bookmark(version, *, end=False):
    """As the API server sends it, nulls included."""
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {
        "type": "BOOKMARK",
        "object": {"kind": "Pod", "metadata": metadata, "spec": {"containers": None}, "status": {}},
    }


def page(*pods, version="10", more=""):
    return {"metadata": {"resourceVersion": version, "continue": more}, "items": list(pods)}


END = bookmark(10, end=True)
MALFORMED = {"overhead": {"cpu": "a lot"}}


def spell(fact):
    """Facts as text: + added, ~ updated, - deleted, ? where the deletion was not seen."""
    match fact:
        case Added(_, new):
            return f"+{new.metadata.name}"
        case Updated(_, old, new):
            versions = f"{old.metadata.resource_version}>{new.metadata.resource_version}"
            return f"~{new.metadata.name} {versions}"
        case Deleted(_, old, seen):
            return f"-{old.metadata.name}{'' if seen else '?'}"
        case Listed():
            return "listed"


class Recorder:
    """An observer that notes each call."""

    def __init__(self):
        self.notes = []

    def watch_started(self, resource):
        self.notes.append("started")

    def watch_restarted(self, resource, problem):
        self.notes.append("restarted")

    def watch_denied(self, resource, why):
        self.notes.append("denied")

    def list_done(self, resource, objects, seconds):
        self.notes.append(f"listed {objects}")

    def object_malformed(self, resource, key, problem):
        self.notes.append(f"{key}: {problem}")


class Reflected:
    """A running reflector, and every fact that it sent."""

    def __init__(self, client, watched, timeouts):
        self.facts = []
        self.pauses = []
        self.observer = Recorder()
        self.reflector = Reflector(
            client,
            watched,
            self.facts.append,
            observer=self.observer,
            timeouts=timeouts,
            sleep=self.sleep,
            rng=random.Random(1),
        )

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    @property
    def sent(self):
        return [spell(fact) for fact in self.facts]


@pytest.fixture
async def reflect(api):
    """Run a reflector until the script is played and the API server keeps quiet."""
    credentials = Credentials(lambda _: Access(api.url))
    async with ApiClient(credentials, limiter=RateLimiter(-1), user_agent="t") as client:

        async def run(watched=PODS, timeouts=ReflectorTimeouts(), *, requests=None):  # noqa: B008 - frozen
            reflected = Reflected(client, watched, timeouts)
            task = asyncio.create_task(reflected.reflector.run())
            expected = requests or len(api.script) + 1
            async with asyncio.timeout(60):
                while len(api.seen) < expected and not task.done():  # noqa: ASYNC110 - a test
                    await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return reflected

        yield run


STREAMS = {
    "a streaming list ends at its bookmark, and the watch goes on": (
        [[added("a", 1), added("b", 2), END, modified("a", 11, node="n"), deleted("b", 12)]],
        ["+a", "+b", "listed", "~a 1>11", "-b"],
    ),
    "a watch that the server ends is resumed where it stopped": (
        [[END, bookmark(20)], [added("a", 21)]],
        ["listed", "+a"],
    ),
    "a heartbeat is no fact, and the next update is compared with the newest version": (
        [[added("a", 1), END, modified("a", 11), modified("a", 12, node="n")]],
        ["+a", "listed", "~a 11>12"],
    ),
    "a label alone is a change": (
        [[added("a", 1), END, modified("a", 11, labels={"x": "y"})]],
        ["+a", "listed", "~a 1>11"],
    ),
    "an event that comes twice is one fact": (
        [[added("a", 1), END, added("a", 1), added("a", 1)]],
        ["+a", "listed"],
    ),
    "the deletion of something unknown is nothing": (
        [[END, deleted("a", 11)]],
        ["listed"],
    ),
    "another object of the same name ends the first": (
        [[added("a", 1), END, modified("a", 11, uid="other")]],
        ["+a", "listed", "-a?", "+a"],
    ),
    "an ERROR event 410 leads to a new list, sent as a difference": (
        [
            [added("a", 1), added("b", 2), added("c", 3), END, error(410)],
            [added("a", 1), added("c", 31, node="n"), added("d", 32), END],
        ],
        ["+a", "+b", "+c", "listed", "~c 3>31", "+d", "-b?"],
    ),
    "another ERROR event is resumed": (
        [[added("a", 1), END, error(500)], [added("b", 11)]],
        ["+a", "listed", "+b"],
    ),
    "an ERROR event at the same version again leads to a new list": (
        [[added("a", 1), END, error(500)], [error(500)], [END]],
        ["+a", "listed", "-a?"],
    ),
    "a first list that breaks off is resumed without sending anything twice": (
        [[added("a", 1), added("b", 2), error(500)], [added("b", 2), added("c", 3), END]],
        ["+a", "+b", "+c", "-a?", "listed"],
    ),
    "changes before the end of a second list count": (
        [
            [added("a", 1), END, error(410)],
            [added("a", 1), added("b", 2), deleted("a", 3), modified("b", 4, node="n"), END],
        ],
        ["+a", "listed", "+b", "-a?"],
    ),
    "a line that is no JSON is skipped": (
        [[END, b"<html>", added("a", 11)]],
        ["listed", "+a"],
    ),
    "an object without a name is skipped": (
        [[END, {"type": "ADDED", "object": {}}, {"type": "ADDED", "object": None}]],
        ["listed"],
    ),
    "an event of 3 MB is read": (
        [[END, added("a", 11, note="x" * 3_000_000), added("b", 12)]],
        ["listed", "+a", "+b"],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_events_become_facts(api, reflect, name):
    script, expected = STREAMS[name]
    api.plays(*(api.streams(*events) for events in script))

    reflected = await reflect()

    assert reflected.sent == expected


async def test_a_watch_is_resumed_at_the_last_version(api, reflect):
    api.plays(api.streams(added("a", 1), END, bookmark(20)), api.streams(added("b", 21)))

    reflected = await reflect()

    first, second, third = (seen.query for seen in api.seen)
    assert first["sendInitialEvents"] == "true"
    assert first["resourceVersionMatch"] == "NotOlderThan"
    assert first["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"
    assert 300 <= int(first["timeoutSeconds"]) <= 600
    assert second["resourceVersion"] == "20"
    assert third["resourceVersion"] == "21"
    assert reflected.pauses == []


async def test_a_broken_connection_is_resumed_after_a_growing_pause(api, reflect):
    api.plays(
        api.streams(END, added("a", 11), then="cut"),
        api.answers(503),
        api.answers(500),
        api.streams(added("b", 12)),
        api.streams(then="cut"),
    )

    reflected = await reflect()

    assert reflected.sent == ["listed", "+a", "+b"]
    assert [int(seconds * 10) // 8 for seconds in reflected.pauses] == [1, 2, 4, 1]
    assert [seen.query["resourceVersion"] for seen in api.seen[1:4]] == ["11", "11", "11"]


async def test_a_silent_connection_is_taken_for_dead(api, reflect):
    api.plays(api.streams(END, then="hang"))

    reflected = await reflect(timeouts=ReflectorTimeouts(silence=0.02))

    assert reflected.sent == ["listed"]
    assert reflected.observer.notes.count("restarted") == 1


async def test_a_watch_that_ends_as_it_begins_does_not_spin(api, reflect):
    api.plays(api.streams(END), api.streams(), api.streams(), api.streams())

    reflected = await reflect()

    assert len(reflected.pauses) == 3


@pytest.mark.parametrize("status", [400, 405, 422])
async def test_pages_are_listed_where_streaming_is_refused(api, reflect, status):
    api.plays(
        api.answers(status, "sendInitialEvents is forbidden for watch"),
        api.answers(200, page(pod("a", 1), pod("b", 2), more="more")),
        api.answers(200, page(pod("c", 3))),
        api.streams(added("d", 11)),
    )

    reflected = await reflect()

    assert reflected.sent == ["+a", "+b", "+c", "listed", "+d"]
    assert reflected.pauses == []
    _, first, second, watch, _ = (seen.query for seen in api.seen)
    assert "resourceVersion" not in first
    assert (first["limit"], second["continue"]) == ("500", "more")
    assert watch["resourceVersion"] == "10"


async def test_a_list_whose_stream_the_server_ends_is_read_by_pages_that_one_time(api, reflect):
    """As kube-apiserver does with a stream that cannot keep up with the cluster's changes."""
    api.plays(
        api.streams(added("a", 1)),
        api.answers(200, page(pod("a", 1), pod("b", 2))),
        api.answers(410, "too old resource version"),
        api.streams(added("b", 2), bookmark(30, end=True)),
    )

    reflected = await reflect()

    assert reflected.sent == ["+a", "+b", "listed", "-a?"]
    assert not reflected.reflector.is_listing
    ended, paged, _, streamed = (seen.query for seen in api.seen[:4])
    assert "sendInitialEvents" in ended
    assert "limit" in paged
    assert "sendInitialEvents" in streamed
    assert len(reflected.pauses) == 1, "a server that ends one stream is not asked again at once"


async def test_a_list_whose_pages_expire_begins_anew(api, reflect):
    api.plays(
        api.answers(422, "no streaming"),
        api.answers(200, page(pod("a", 1), pod("b", 2), more="more")),
        api.answers(410, "the continue token is too old"),
        api.answers(200, page(pod("b", 2), pod("c", 3))),
    )

    reflected = await reflect()

    assert reflected.sent == ["+a", "+b", "+c", "-a?", "listed"]
    assert "continue" not in api.seen[3].query


async def test_a_compacted_watch_is_listed_anew_at_once(api, reflect):
    api.plays(
        api.streams(added("a", 1), END),
        api.answers(410, "too old resource version"),
        api.streams(bookmark(30, end=True)),
    )

    reflected = await reflect()

    assert reflected.sent == ["+a", "listed", "-a?"]
    assert reflected.pauses == []
    assert api.seen[-1].query["resourceVersion"] == "30"


async def test_a_429_pauses_for_its_retry_after(api, reflect):
    api.plays(api.answers(429, "later", Retry_After="17"), api.streams(END))

    reflected = await reflect()

    assert reflected.pauses == [17]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_missing_permission_is_reported_once_and_tried_again(api, reflect, status):
    refusals = [api.answers(status, "no") for _ in range(6)]
    api.plays(*refusals, api.streams(added("a", 1), END))

    reflected = await reflect()

    assert reflected.sent == ["+a", "listed"]
    assert reflected.observer.notes.count("denied") == 1


async def test_an_optional_resource_does_not_delay_the_start(api, reflect):
    api.plays(api.answers(403, "no"))

    reflected = await reflect(SERVICES)

    assert reflected.sent == ["listed"]


async def test_a_list_that_is_no_list_is_tried_again(api, reflect):
    api.plays(api.answers(422, "no"), api.answers(200, b"<html>"), api.answers(200, page()))

    reflected = await reflect()

    assert reflected.sent == ["listed"]


async def test_a_malformed_pod_is_told_as_a_husk(api, reflect):
    api.plays(
        api.streams(
            END,
            added("a", 11, node="n", schedulerName="py-scheduler", **MALFORMED),
            modified("a", 12, node="n", schedulerName="py-scheduler", **MALFORMED),
            modified("a", 13, node="n"),
        )
    )

    reflected = await reflect()

    assert reflected.sent == ["listed", "+a", "~a 12>13"]
    partial = reflected.facts[1].new
    assert partial.malformed.startswith("spec.overhead[cpu]: 'a lot'")
    assert (partial.node_name, partial.spec.scheduler_name) == ("n", "py-scheduler")
    assert reflected.facts[2].new.malformed == ""
    assert [note for note in reflected.observer.notes if "overhead" in note] == [
        f"default/a: {partial.malformed}"
    ]


async def test_the_last_good_version_of_anything_else_stays(api, reflect):
    """A service whose selector becomes unreadable keeps the one it had, over a new list too."""

    def service(kind, name, selector, version):
        metadata = {"name": name, "namespace": "x", "uid": name, "resourceVersion": str(version)}
        return {"type": kind, "object": {"metadata": metadata, "spec": {"selector": selector}}}

    api.plays(
        api.streams(
            service("ADDED", "s", {"app": "a"}, 1),
            service("ADDED", "t", {"app": "a"}, 2),
            END,
            service("MODIFIED", "s", {"app": 7}, 11),
            error(410),
        ),
        api.streams(service("ADDED", "s", {"app": 7}, 11), bookmark(20, end=True)),
        api.streams(service("DELETED", "s", {"app": 7}, 21)),
    )

    reflected = await reflect(SERVICES)

    assert reflected.sent == ["+s", "+t", "listed", "-t?", "-s"]
    assert "x/s: spec.selector[...]: Expected `str`, got `int`" in reflected.observer.notes
    assert api.seen[-1].query["resourceVersion"] == "21"


async def test_heartbeats_share_the_parts_of_the_old_object(api, reflect):
    """A node's images are kept once, however often it says that it lives."""

    def node(kind, version):
        metadata = {"name": "n", "uid": "n", "resourceVersion": str(version)}
        heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": str(version)}
        return {
            "type": kind,
            "object": {"metadata": metadata, "status": {"conditions": [heartbeat]}},
        }

    api.plays(api.streams(node("ADDED", 1), END, node("MODIFIED", 11), node("MODIFIED", 12)))

    reflected = await reflect(NODES)

    assert reflected.sent == ["+n", "listed"]
    kept = reflected.reflector.store["", "n"]
    assert kept.metadata.resource_version == "12"
    assert kept.status is reflected.facts[0].new.status


class Bystander:
    """A task that counts how often it runs."""

    def __init__(self):
        self.runs = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        while True:
            self.runs += 1
            await asyncio.sleep(0)

    def cancel(self):
        self._task.cancel()


async def test_long_lists_let_other_tasks_run(api, reflect):
    """While a list is applied, other tasks run at least once for each slice of it."""
    pods = [json.dumps(added(f"p{index}", index)).encode() for index in range(2000)]
    bystander = Bystander()
    api.plays(api.streams(b"\n".join(pods), END, error(410)), api.streams(END))

    reflected = await reflect()

    bystander.cancel()
    assert len(reflected.sent) == 4001
    assert bystander.runs >= 2 * 2000 // SLICE_OBJECTS


async def test_a_large_pod_lets_other_tasks_run(api, reflect):
    """Others run several times while a single line is read, and what follows comes after it."""
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{index}"}}}
        for index in range(5 * PIECE_ENTRIES)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    large = added("large", 12, affinity={"podAntiAffinity": required})
    lines = b"\n".join(json.dumps(each).encode() for each in (large, added("small", 13)))
    bystander = Bystander()
    api.plays(api.streams(END, lines, error(410)), api.streams(END))

    reflected = await reflect()

    bystander.cancel()
    assert reflected.sent[:3] == ["listed", "+large", "+small"]
    assert bystander.runs >= 5


async def test_the_first_success_after_an_outage_ends_the_backoff_of_all():
    """When the server answers one of them, none of the others sleeps out its backoff."""
    shared_backoff = SharedBackoff()
    sleepers = [asyncio.create_task(shared_backoff.sleep(3600)) for _ in range(3)]
    await asyncio.sleep(0)

    shared_backoff.wake()

    await asyncio.wait_for(asyncio.gather(*sleepers), 10)


async def test_a_later_outage_is_slept_through_again():
    shared_backoff = SharedBackoff()
    shared_backoff.wake()
    sleeper = asyncio.create_task(shared_backoff.sleep(3600))
    await asyncio.sleep(0)

    assert not sleeper.done()

    sleeper.cancel()


async def test_silence_is_measured_once_a_watch_has_begun(api, reflect):
    """A standby with delayCacheUntilActive opens no watch yet: it has no silence to report."""
    waiting = Reflector(None, PODS, lambda _: None, clock=iter([]).__next__)
    assert waiting.silence_seconds is None

    api.plays(api.streams(END))
    reflected = await reflect()
    assert 0 <= reflected.reflector.silence_seconds < 5

    api.plays(api.answers(403, "no"))
    refused = await reflect(requests=len(api.seen) + 2)
    assert refused.reflector.silence_seconds is not None


async def test_a_list_that_arrives_is_not_silent_however_long_it_takes():
    """The list of a large cluster takes minutes at a busy server."""
    now, delivered = 0.0, asyncio.Event()

    class SlowServer:
        async def watch(self, path, params, *, silence_seconds):
            del path, params, silence_seconds
            nonlocal now
            for index in range(3):
                now += 100.0
                yield json.dumps(added(f"p{index}", index + 1)).encode()
            delivered.set()
            await asyncio.Event().wait()

    reflector = Reflector(SlowServer(), PODS, lambda _: None, clock=lambda: now)
    listing = asyncio.create_task(reflector.run())
    await delivered.wait()
    listing.cancel()

    assert len(reflector.store) == 3
    assert not reflector.listed
    assert reflector.is_listing
    assert reflector.silence_seconds == 0


async def test_an_absent_optional_resource_has_no_silence(api, reflect):
    api.plays(api.answers(404, "no such resource"), api.answers(404, "no such resource"))

    reflected = await reflect(SERVICES, requests=2)

    assert reflected.reflector.silence_seconds is None
