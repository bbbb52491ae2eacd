import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from scheduler.errors import (
    Conflict,
    Forbidden,
    NotFound,
    Rejected,
    Throttled,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.event_recorder import (
    EVENT_RETRIES,
    DropReason,
    EventObserver,
    EventRecorder,
    RecorderSettings,
    Remedy,
    judge_failure,
)
from scheduler.kube.event_series import micro_time
from scheduler.kube.events import clip, failed_scheduling, preempted, scheduled, truncate_note
from scheduler.kube.rate_limit import RateLimiter
from scheduler.model.meta import ObjectMeta
from scheduler.model.pod import Pod
from scheduler.model.pod_spec import PodSpec

MINUTE = 60.0
EVENTS = re.compile(r"/apis/events\.k8s\.io/v1/namespaces/([^/]+)/events(?:/([^/]+))?")


def make_pod(name="web", version="7", scheduler="py-scheduler"):
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="shop", uid=f"uid-{name}", resource_version=version
        ),
        spec=PodSpec(scheduler_name=scheduler),
    )


class EventApi:
    """The events of an API server; *faults* befall the next requests, in order."""

    def __init__(self):
        self.events = {}
        self.faults = []
        self.requests = Counter()
        self.gate = asyncio.Event()
        self.gate.set()

    async def post(self, path, body, params=None):
        namespace, _ = EVENTS.fullmatch(path).groups()
        event = json.loads(body)
        assert event["metadata"]["namespace"] == event["regarding"]["namespace"] == namespace
        await self._meet_fault("post")
        if event["metadata"]["name"] in self.events:
            raise Conflict("already exists")
        self.events[event["metadata"]["name"]] = event
        self._lose_answer()
        return body

    async def patch(self, path, body, content_type, params=None):
        assert content_type == "application/strategic-merge-patch+json"
        _, name = EVENTS.fullmatch(path).groups()
        await self._meet_fault("patch")
        if name not in self.events:
            raise NotFound(name)
        self.events[name] |= json.loads(body)
        self._lose_answer()
        return body

    def notes(self):
        """Note and count of every event, in the order of creation."""
        return [
            (event["note"], event.get("series", {}).get("count", 1))
            for event in self.events.values()
        ]

    async def _meet_fault(self, verb):
        self.requests[verb] += 1
        await self.gate.wait()
        await asyncio.sleep(0)
        if self.faults and self.faults[0] is not ANSWER_LOST:
            raise self.faults.pop(0)

    def _lose_answer(self):
        if self.faults:
            self.faults.pop(0)
            raise Unreachable("no answer")


ANSWER_LOST = object()


class Counts(EventObserver):
    def __init__(self):
        self.drops = Counter()
        self.deliveries = 0

    def delivered(self):
        self.deliveries += 1

    def dropped(self, reason):
        self.drops[reason] += 1


class Wall:
    def __init__(self):
        self.seconds = 1_780_000_000.0

    def __call__(self):
        return int(self.seconds * 1e9)


class Stage:
    """A recorder at work on a simulated API, with a clock to turn."""

    def __init__(self, **bounds):
        self.api, self.counts, self.wall, self.pauses = EventApi(), Counts(), Wall(), []
        self.recorder = EventRecorder(
            self.api,
            host="host-1",
            limiter=RateLimiter(-1),
            observer=self.counts,
            settings=RecorderSettings(
                retries=replace(EVENT_RETRIES, sleep=self.sleep),
                wall_nanoseconds=self.wall,
                sleep=self.sleep,
                **bounds,
            ),
        )
        self.running = None

    async def sleep(self, seconds):
        if seconds == 30.0:  # the sweeper, which these tests call themselves
            await asyncio.Event().wait()
        self.pauses.append(seconds)

    async def __aenter__(self):
        self.running = asyncio.create_task(self.recorder.run())
        return self

    async def __aexit__(self, *_):
        await self.recorder.close(0.2)
        await self.running

    def fail(self, pod=None, message="0/3 nodes"):
        self.recorder.record(failed_scheduling(pod or make_pod(), message))

    async def settle(self):
        for _ in range(200):
            await asyncio.sleep(0)

    async def pass_time(self, seconds):
        self.wall.seconds += seconds
        self.recorder.sweep()
        await self.settle()


async def test_an_event_has_the_fields_that_kubectl_describe_selects():
    async with Stage() as stage:
        stage.recorder.record(scheduled(make_pod(), "n1"))
        await stage.settle()

        (event,) = stage.api.events.values()
        assert re.fullmatch(r"web\.[0-9a-f]+", event["metadata"].pop("name"))
        assert event == {
            "metadata": {"namespace": "shop"},
            "eventTime": micro_time(stage.wall()),
            "reportingController": "py-scheduler",
            "reportingInstance": "py-scheduler-host-1",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "shop",
                "name": "web",
                "uid": "uid-web",
                "resourceVersion": "7",
            },
            "note": "Successfully assigned shop/web to n1",
            "type": "Normal",
        }


def test_a_victims_event_names_the_preemptors_scheduler_and_the_preemptor():
    victim, preemptor = make_pod("low", scheduler="default-scheduler"), make_pod("high")

    event = preempted(victim, preemptor, "n1")

    assert event.controller == "py-scheduler"
    assert event.note == "Preempted by pod uid-high on node n1"
    assert (event.regarding.name, event.related.name) == ("low", "high")


async def test_the_first_repeat_is_written_at_once_and_later_ones_only_counted():
    async with Stage() as stage:
        for expected in (1, 2, 2, 2):
            stage.fail()
            await stage.settle()
            assert stage.api.notes() == [("0/3 nodes", expected)]
        assert stage.api.requests == {"post": 1, "patch": 1}


async def test_a_series_that_goes_idle_is_written_once_more_and_ends():
    async with Stage() as stage:
        for _ in range(5):
            stage.fail()
            await stage.settle()

        await stage.pass_time(6 * MINUTE + 1)
        assert stage.api.notes() == [("0/3 nodes", 5)]

        stage.fail()
        await stage.settle()
        assert stage.api.notes() == [("0/3 nodes", 5), ("0/3 nodes", 1)]


async def test_a_series_that_goes_on_is_refreshed_every_half_hour():
    async with Stage() as stage:
        stage.fail()
        await stage.settle()
        for _ in range(14):
            stage.fail()
            await stage.pass_time(2 * MINUTE)
        assert stage.api.notes() == [("0/3 nodes", 2)]

        stage.fail()
        await stage.pass_time(4 * MINUTE)
        assert stage.api.notes() == [("0/3 nodes", 16)]


async def test_the_last_observed_time_is_that_of_the_newest_repeat():
    async with Stage() as stage:
        stage.fail()
        await stage.settle()
        stage.wall.seconds += 10
        stage.fail()
        await stage.settle()

        (event,) = stage.api.events.values()
        assert event["series"]["lastObservedTime"] == micro_time(stage.wall())


async def test_a_new_note_is_a_new_event_and_a_new_resource_version_is_not():
    async with Stage() as stage:
        stage.fail(make_pod(version="7"), "0/3 nodes")
        stage.fail(make_pod(version="8"), "0/4 nodes")
        stage.fail(make_pod(version="9"), "0/3 nodes")
        await stage.settle()

        assert stage.api.notes() == [("0/3 nodes", 2), ("0/4 nodes", 1)]


async def test_what_happens_once_is_not_remembered():
    async with Stage() as stage:
        for i in range(100):
            stage.recorder.record(scheduled(make_pod(f"web-{i}"), "n1"))
        await stage.settle()

        assert len(stage.api.events) == 100
        assert not stage.recorder._series


async def test_series_are_bounded_and_the_one_forgotten_first_is_the_idlest():
    async with Stage(series_maximum=10) as stage:
        for i in range(50):
            stage.fail(make_pod("kept"))
            stage.fail(make_pod(f"web-{i}"))
            await stage.settle()

        assert len(stage.recorder._series) == 10
        assert len(stage.api.events) == 51


async def test_a_series_forgotten_for_want_of_room_is_written_first():
    async with Stage(series_maximum=1) as stage:
        for _ in range(4):
            stage.fail()
            await stage.settle()
        stage.fail(make_pod("other"))
        await stage.settle()

        assert stage.api.notes() == [("0/3 nodes", 4), ("0/3 nodes", 1)]


async def test_a_full_queue_drops_and_counts_and_never_waits():
    async with Stage(queued_maximum=10, workers=1) as stage:
        stage.api.gate.clear()
        for i in range(25):
            stage.recorder.record(scheduled(make_pod(f"web-{i}"), "n1"))
        assert stage.counts.drops == {DropReason.QUEUE_FULL: 15}

        stage.api.gate.set()
        await stage.settle()
        assert len(stage.api.events) == stage.counts.deliveries == 10


async def test_a_repeat_during_creation_is_counted_after_it():
    async with Stage() as stage:
        stage.api.gate.clear()
        stage.fail()
        await stage.settle()
        stage.fail()
        stage.fail()
        stage.api.gate.set()
        await stage.settle()

        assert stage.api.notes() == [("0/3 nodes", 3)]


@pytest.mark.parametrize(
    ("error", "creating", "remedy"),
    [
        (Unreachable("x"), True, Remedy.REPEAT),
        (Throttled("x"), True, Remedy.REPEAT),
        (Unauthorized("x"), False, Remedy.REPEAT),
        (Conflict("already exists"), True, Remedy.COUNT_AS_CREATED),
        (Conflict("modified"), False, Remedy.REPEAT),
        (NotFound("namespace"), True, DropReason.REFUSED),
        (NotFound("event"), False, Remedy.CREATE),
        (Forbidden("being terminated"), True, DropReason.REFUSED),
        (Rejected("invalid"), True, DropReason.REFUSED),
    ],
)
def test_each_failure_has_its_remedy(error, creating, remedy):
    assert judge_failure(error, creating=creating) is remedy


async def test_a_lost_answer_makes_no_second_event():
    async with Stage() as stage:
        stage.api.faults = [ANSWER_LOST]
        stage.fail()
        await stage.settle()

        assert stage.api.notes() == [("0/3 nodes", 1)]
        assert stage.counts.deliveries == 1


async def test_delivery_is_repeated_with_pauses_and_given_up_after_twelve_tries():
    async with Stage() as stage:
        stage.api.faults = [Unreachable("down")] * 12
        stage.fail()
        await stage.settle()

        assert stage.counts.drops == {DropReason.UNDELIVERED: 1}
        assert stage.api.requests == {"post": 12}
        assert 0.5 <= stage.pauses[0] <= 0.625
        assert all(10 <= pause <= 12.5 for pause in stage.pauses[5:])


async def test_what_was_never_delivered_begins_anew():
    async with Stage() as stage:
        stage.api.faults = [Rejected("invalid")]
        stage.fail()
        await stage.settle()
        stage.fail()
        await stage.settle()

        assert stage.counts.drops == {DropReason.REFUSED: 1}
        assert stage.api.notes() == [("0/3 nodes", 1)]


async def test_throttling_is_obeyed():
    async with Stage() as stage:
        stage.api.faults = [Throttled("429", retry_after_seconds=4)]
        stage.fail()
        await stage.settle()

        assert stage.pauses == [4]
        assert len(stage.api.events) == 1


async def test_an_event_that_expired_on_the_server_is_created_again_with_its_count():
    async with Stage() as stage:
        stage.fail()
        await stage.settle()
        stage.api.events.clear()
        stage.fail()
        await stage.settle()

        assert stage.api.notes() == [("0/3 nodes", 2)]


async def test_closing_writes_what_is_queued_and_what_was_only_counted():
    stage = Stage()
    async with stage:
        for _ in range(7):
            stage.fail()
            await stage.settle()
        stage.fail(make_pod("late"))

    assert stage.api.notes() == [("0/3 nodes", 7), ("0/3 nodes", 1)]
    assert stage.running.done()
    stage.fail(make_pod("later still"))
    assert stage.counts.drops == {DropReason.SHUT_DOWN: 1}


async def test_closing_waits_no_longer_than_it_may():
    stage = Stage(workers=1)
    async with stage:
        stage.api.gate.clear()
        for i in range(5):
            stage.fail(make_pod(f"web-{i}"))

    # That it ends at all is the point: no request is ever answered.
    assert stage.counts.drops == {DropReason.SHUT_DOWN: 5}


async def test_a_defect_of_the_recorder_ends_run_instead_of_hiding():
    stage = Stage()
    stage.api.faults = [ZeroDivisionError("a defect")]
    stage.fail()

    with pytest.raises(ExceptionGroup) as raised:
        await stage.recorder.run()
    assert raised.group_contains(ZeroDivisionError)


async def test_names_differ_even_within_one_tick_of_the_clock():
    async with Stage() as stage:
        for i in range(20):
            stage.fail(message=f"0/{i} nodes")
        await stage.settle()

        assert len(stage.api.events) == 20


@pytest.mark.parametrize("letter", ["x", "é", "日", "🙂"])
def test_a_long_note_is_cut_to_1024_bytes_between_characters(letter):
    for length in (1024 // len(letter.encode()), 1025, 5000):
        note = letter * length
        cut = truncate_note(note)
        assert len(cut.encode()) <= 1024
        assert cut == note or (cut.endswith(f"{letter} ...") and note.startswith(cut[:-4]))


def test_a_note_that_just_fits_is_left_alone():
    assert truncate_note("x" * 1024) == "x" * 1024
    assert truncate_note("x" * 1025) == "x" * 1020 + " ..."
    assert clip("py-scheduler-" + "h" * 300, 128) == "py-scheduler-" + "h" * 115
