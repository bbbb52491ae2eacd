import asyncio
import contextlib
import heapq
import itertools
import json
import random
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.errors import Conflict, NotFound, Throttled, Unreachable
from scheduler.kube.election import (
    Create,
    Election,
    Lease,
    LeaseRecord,
    LeaseSettings,
    Read,
    Replace,
    Resign,
    Standing,
    Wait,
    decode_lease,
    encode_lease,
    micro_time,
)
from scheduler.kube.lease import LeaseKeeper, LeaseObserver, suspend_aware_seconds

WALL = datetime(2026, 7, 1, 12, 0, 0, 123456, UTC)
STAMP = "2026-07-01T12:00:00.123456Z"
EARLIER = "2026-06-30T09:00:00.000000Z"


def settings(identity="us", **times):
    return LeaseSettings(namespace="kube-system", name="py-scheduler", identity=identity, **times)


def held_by(holder, *, renewed="r1", seconds=15, transitions=4, version="1"):
    record = LeaseRecord(
        holder_identity=holder,
        lease_duration_seconds=seconds,
        acquire_time=EARLIER,
        renew_time=renewed,
        lease_transitions=transitions,
    )
    return Lease(metadata={"name": "py-scheduler", "resourceVersion": version}, spec=record)


def election(**times):
    return Election(settings(**times), rng=random.Random(3))


def leading(at=100.0):
    """Return an election that was won by a request begun at *at* and answered a second later."""
    candidate = election()
    candidate.next_action(at - 1, WALL)
    candidate.note_absent()
    create = candidate.next_action(at, WALL)
    candidate.note_written(create.lease, at + 1)
    assert candidate.standing is Standing.LEADING
    return candidate


def standby_after(lease, at=100.0):
    candidate = election()
    assert isinstance(candidate.next_action(at, WALL), Read)
    candidate.note_read(lease, at)
    return candidate


# The pure part: what to do, and when.


def test_an_absent_lease_is_created_as_client_go_would():
    candidate = election()
    candidate.next_action(100, WALL)
    candidate.note_absent()

    action = candidate.next_action(100, WALL)

    assert isinstance(action, Create)
    assert json.loads(encode_lease(action.lease)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": "py-scheduler"},
        "spec": {
            "holderIdentity": "us",
            "leaseDurationSeconds": 15,
            "acquireTime": STAMP,
            "renewTime": STAMP,
            "leaseTransitions": 0,
        },
    }


@pytest.mark.parametrize(
    ("lease", "at_once", "transitions", "acquired"),
    [
        (held_by("them"), False, None, None),
        (held_by(""), True, 5, STAMP),
        (held_by(None), True, 5, STAMP),
        (held_by("us"), True, 4, EARLIER),
        (Lease(metadata={"name": "made by hand"}), True, 1, STAMP),
    ],
)
def test_who_holds_the_lease_decides_whether_it_is_taken_at_once(
    lease, at_once, transitions, acquired
):
    action = standby_after(lease).next_action(100, WALL)

    assert isinstance(action, Replace if at_once else Wait)
    if at_once:
        assert action.lease.spec.holder_identity == "us"
        assert action.lease.spec.lease_transitions == transitions
        assert action.lease.spec.acquire_time == acquired
        assert action.lease.metadata == lease.metadata


def test_anothers_lease_expires_by_our_clock_since_its_record_was_seen_to_change():
    """The record's stamps are years old all along; only that they change counts."""
    candidate = standby_after(held_by("them", renewed="r1"), at=100)
    for at, renewed in [(110, "r2"), (120, "r3"), (130, "r3"), (134.9, "r3")]:
        assert isinstance(candidate.next_action(at, WALL), Read)
        candidate.note_read(held_by("them", renewed=renewed), at)
        assert isinstance(candidate.next_action(at, WALL), Wait)

    candidate.next_action(140, WALL)
    candidate.note_read(held_by("them", renewed="r3"), 140)
    assert isinstance(candidate.next_action(140, WALL), Replace)


def test_a_new_version_of_an_unchanged_record_does_not_prolong_it():
    candidate = standby_after(held_by("them", version="1"), at=100)
    candidate.next_action(110, WALL)
    candidate.note_read(held_by("them", version="2"), 110)
    candidate.next_action(115, WALL)
    candidate.note_read(held_by("them", version="3"), 115)

    assert isinstance(candidate.next_action(115, WALL), Replace)


@pytest.mark.parametrize(("seconds", "expiry"), [(15, 15), (60, 60), (1, 1), (None, 15)])
def test_the_holder_says_how_long_its_lease_is(seconds, expiry):
    lease = held_by("them", seconds=seconds)
    for wait, kind in [(expiry - 0.5, Wait), (expiry + 0.5, Replace)]:
        candidate = standby_after(lease)
        candidate._not_before = 100 + wait
        candidate.next_action(100 + wait, WALL)
        candidate.note_read(lease, 100 + wait)
        assert isinstance(candidate.next_action(100 + wait, WALL), kind)


def test_a_standby_looks_again_after_the_retry_time_with_jitter():
    waits = set()
    for seed in range(50):
        candidate = Election(settings(), rng=random.Random(seed))
        candidate.next_action(100, WALL)
        candidate.note_read(held_by("them"), 100)
        waits.add(candidate.next_action(100, WALL).seconds)

    assert len(waits) == 50
    assert all(2 <= wait <= 2 * 2.2 for wait in waits)


def test_a_standby_looks_at_the_moment_the_lease_expires():
    """Otherwise a takeover would come a retry time later than it may."""
    candidate = standby_after(held_by("them"), at=100)
    for at in (104, 108, 112):
        candidate._not_before = at
        candidate.next_action(at, WALL)
        candidate.note_read(held_by("them"), at)

    assert candidate.next_action(112, WALL).seconds <= 3
    assert isinstance(candidate.next_action(115, WALL), Read)
    candidate.note_read(held_by("them"), 115)
    assert isinstance(candidate.next_action(115, WALL), Replace)


def test_leading_counts_from_the_start_of_the_request_that_won():
    candidate = leading(at=100)

    assert candidate.leading_until == 110


def test_a_leader_renews_with_one_request_every_retry_time_or_a_little_earlier():
    candidate = leading(at=100)

    assert 1.8 < candidate.next_action(101, WALL).seconds < 2
    action = candidate.next_action(103, WALL)
    assert isinstance(action, Replace)
    candidate.note_written(action.lease, 103.5)
    assert candidate.leading_until == 113


def test_a_leader_that_meets_a_conflict_looks_at_once_and_writes_again_if_still_ours():
    candidate = leading(at=100)
    candidate.next_action(103, WALL)
    candidate.note_failed(Conflict("409"), 103)

    assert isinstance(candidate.next_action(103, WALL), Read)
    candidate.note_read(held_by("us", version="9"), 103)
    action = candidate.next_action(103, WALL)
    assert isinstance(action, Replace)
    assert action.lease.metadata["resourceVersion"] == "9"


def test_a_second_conflict_in_a_row_waits():
    candidate = leading(at=100)
    for at in (103, 103.1):
        candidate.next_action(at, WALL)
        candidate.note_failed(Conflict("409"), at)

    assert isinstance(candidate.next_action(103.1, WALL), Wait)


def test_a_leader_that_sees_another_holder_has_lost():
    candidate = leading(at=100)
    candidate.next_action(103, WALL)
    candidate.note_failed(Conflict("409"), 103)
    candidate.next_action(103, WALL)
    candidate.note_read(held_by("them"), 103)

    assert candidate.next_action(103, WALL) == Resign("held by them")
    assert candidate.leading_until == float("-inf")


def test_a_leader_whose_lease_was_deleted_creates_it_again():
    candidate = leading(at=100)
    candidate.next_action(103, WALL)
    candidate.note_failed(NotFound("404"), 103)
    candidate.next_action(105, WALL)
    candidate.note_absent()

    assert isinstance(candidate.next_action(105, WALL), Create)


def test_no_request_begins_or_counts_after_the_renew_deadline():
    candidate = leading(at=100)
    at, begun = 101.0, []
    while not isinstance(action := candidate.next_action(at, WALL), Resign):
        if isinstance(action, Wait):
            at += action.seconds
            continue
        begun.append(at)
        assert at + action.timeout_seconds <= 110
        at += min(0.7, action.timeout_seconds)
        candidate.note_failed(Unreachable("down"), at)

    assert begun
    assert max(begun) < 110 <= at
    assert action == Resign("the renew deadline passed")


def test_a_request_that_hung_is_followed_by_another_before_the_deadline():
    candidate = leading(at=100)
    hung = candidate.next_action(103, WALL)
    candidate.note_failed(Unreachable("timeout"), 103 + hung.timeout_seconds)

    assert isinstance(candidate.next_action(103 + hung.timeout_seconds, WALL), Read)


def test_a_renewal_answered_after_the_deadline_is_lost():
    candidate = leading(at=100)
    action = candidate.next_action(109, WALL)
    candidate.note_written(action.lease, 110)

    assert isinstance(candidate.next_action(110, WALL), Resign)


def test_a_win_answered_too_late_does_not_lead_before_it_is_written_again():
    candidate = standby_after(held_by(""), at=100)
    action = candidate.next_action(100, WALL)
    candidate.note_written(action.lease, 111)
    assert candidate.standing is Standing.STANDBY

    action = candidate.next_action(111, WALL)
    assert isinstance(action, Replace)
    candidate.note_written(action.lease, 112)
    assert candidate.leading_until == 121


def test_a_lost_lease_stays_lost():
    candidate = leading(at=100)
    assert isinstance(candidate.next_action(200, WALL), Resign)

    candidate.note_written(held_by("us"), 200)

    assert isinstance(candidate.next_action(200, WALL), Resign)
    assert candidate.standing is Standing.LOST


def test_throttling_is_obeyed():
    candidate = election()
    candidate.next_action(100, WALL)
    candidate.note_failed(Throttled("429", retry_after_seconds=30), 100)

    assert candidate.next_action(100, WALL) == Wait(30)


def test_a_release_leaves_an_empty_holder_a_second_and_the_rest():
    mine, theirs = held_by("us"), held_by("them")

    released = election().released(mine, WALL)

    assert released.metadata == mine.metadata
    assert released.spec == LeaseRecord(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=STAMP,
        renew_time=STAMP,
        lease_transitions=4,
    )
    assert election().released(theirs, WALL) is None


def test_a_lease_written_by_client_go_is_read():
    lease = decode_lease(
        b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kube-scheduler",'
        b'"labels":{"a":"b"},"managedFields":[{"manager":"kube-scheduler"}]},"spec":{"acquireTime":'
        b'"2026-01-01T00:00:00.000000Z","holderIdentity":"cp_1","leaseDurationSeconds":15,'
        b'"leaseTransitions":2,"renewTime":"2026-01-01T00:00:09.000000Z","strategy":"x"}}'
    )

    assert lease.spec.holder_identity == "cp_1"
    assert json.loads(encode_lease(lease))["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    "times",
    [
        {"lease_seconds": 10},
        {"renew_deadline_seconds": 2.0},
        {"retry_seconds": 0},
        {"identity": ""},
    ],
)
def test_times_that_could_let_two_lead_are_refused(times):
    with pytest.raises(AssertionError):
        settings(**times)


# The same election, twice, under faults.


class LeaseApi:
    """The leases of an API server: one version a write, and a conflict for whoever missed one."""

    def __init__(self):
        self.leases = {}
        self.versions = itertools.count(1)
        self.down = False
        self.lock = threading.Lock()

    async def get(self, path, params=None):
        self._check_up()
        with self.lock:
            if path not in self.leases:
                raise NotFound(path)
            return json.dumps(self.leases[path]).encode()

    async def post(self, path, body, params=None):
        self._check_up()
        lease = json.loads(body)
        name = lease["metadata"]["name"]
        with self.lock:
            if f"{path}/{name}" in self.leases:
                raise Conflict("already exists")
            return self._store(f"{path}/{name}", lease)

    async def put(self, path, body, params=None):
        self._check_up()
        lease = json.loads(body)
        with self.lock:
            if path not in self.leases:
                raise NotFound(path)
            current = self.leases[path]["metadata"]["resourceVersion"]
            if lease["metadata"]["resourceVersion"] != current:
                raise Conflict("the object has been modified")
            return self._store(path, lease)

    def _store(self, path, lease):
        lease["metadata"]["resourceVersion"] = str(next(self.versions))
        self.leases[path] = lease
        return json.dumps(lease).encode()

    def _check_up(self):
        if self.down:
            raise Unreachable("down")

    @property
    def holder(self):
        return next(iter(self.leases.values()))["spec"]["holderIdentity"]


class Contender:
    """A process; neither its monotonic clock nor its wall clock agrees with anybody's."""

    def __init__(self, identity, seed, rng):
        self.election = Election(settings(identity), rng=random.Random(seed))
        self.offset = rng.uniform(-1e6, 1e6)
        self.skew = rng.uniform(-1e5, 1e5)
        self.frozen_until = 0.0

    def leads(self, now):
        return now + self.offset < self.election.leading_until


class Duel:
    """Contenders on one simulated server and one true clock; theirs differ from it.

    Requests and answers are delayed and lost, processes freeze; a request may take effect long
    after its sender gave up on it. Whoever loses the lease is replaced by a new process.
    """

    def __init__(self, seed, *, troubled_until=300.0):
        self.rng = random.Random(seed)
        self.api = LeaseApi()
        self.now = 0.0
        self.troubled_until = troubled_until
        self.agenda = []
        self.order = itertools.count()
        self.born = itertools.count()
        self.contenders = []
        self.terms = []
        for _ in range(2):
            self.enter()

    def enter(self):
        number = next(self.born)
        one = Contender(f"c{number}", number, self.rng)
        self.contenders.append(one)
        self.at(self.now, lambda: self.step(one))

    def at(self, when, what):
        heapq.heappush(self.agenda, (when, next(self.order), what))

    def run(self, until):
        while self.agenda and self.agenda[0][0] <= until:
            self.now, _, what = heapq.heappop(self.agenda)
            what()
            self.check()

    def check(self):
        leaders = [one for one in self.contenders if one.leads(self.now)]
        assert len(leaders) <= 1, f"two leaders at {self.now}"
        for one in leaders:
            if not self.terms or self.terms[-1] is not one:
                self.terms.append(one)

    @property
    def troubled(self):
        return self.now < self.troubled_until

    def step(self, one):
        if self.troubled and self.rng.random() < 0.02:
            one.frozen_until = self.now + self.rng.uniform(1, 40)
        if self.now < one.frozen_until:
            self.at(one.frozen_until, lambda: self.step(one))
            return
        wall = WALL + timedelta(seconds=self.now + one.skew)
        match one.election.next_action(self.now + one.offset, wall):
            case Resign():
                self.contenders.remove(one)
                self.enter()
            case Wait(seconds):
                self.at(self.now + seconds, lambda: self.step(one))
            case request:
                self.send(one, request)

    def send(self, one, request):
        slow = self.troubled and self.rng.random() < 0.2
        there = self.rng.uniform(0, 20 if slow else 0.1)
        back = there + self.rng.uniform(0, 0.1)
        lost = self.troubled and self.rng.random() < 0.2
        answers = []
        # Each request carries the record of its own moment, however late it lands.
        self.at(self.now + there, lambda: answers.append(self.execute(request)))
        if lost or back > request.timeout_seconds:
            failure = Unreachable("no answer")
            self.at(self.now + request.timeout_seconds, lambda: self.hear(one, request, failure))
        else:
            self.at(self.now + back, lambda: self.hear(one, request, answers[0]))

    def execute(self, request):
        path = settings().path
        match request:
            case Read():
                call = self.api.get(path)
            case Create(lease):
                call = self.api.post(settings().collection, encode_lease(lease))
            case Replace(lease):
                call = self.api.put(path, encode_lease(lease))
        try:
            call.send(None)
        except StopIteration as done:
            return decode_lease(done.value)
        except (Conflict, NotFound) as error:
            return error

    def hear(self, one, request, answer):
        if self.now < one.frozen_until:
            self.at(one.frozen_until, lambda: self.hear(one, request, answer))
            return
        now = self.now + one.offset
        match answer:
            case NotFound() if isinstance(request, Read):
                one.election.note_absent()
            case Exception():
                one.election.note_failed(answer, now)
            case lease if isinstance(request, Read):
                one.election.note_read(lease, now)
            case lease:
                one.election.note_written(lease, now)
        self.step(one)


@pytest.mark.parametrize("seed", range(150))
def test_two_contenders_never_lead_at_once_and_one_of_them_leads_in_the_end(seed):
    duel = Duel(seed)

    duel.run(until=400)

    assert [one.leads(duel.now) for one in duel.contenders].count(True) == 1


def test_the_simulation_does_change_leaders():
    terms = 0
    for seed in range(20):
        duel = Duel(seed)
        duel.run(until=300)
        terms += len(duel.terms)

    assert terms > 40


# The keeper: the election in its own thread.

QUICK = {"lease_seconds": 1, "renew_deadline_seconds": 0.6, "retry_seconds": 0.05}


class Stage:
    def __init__(self):
        self.api = LeaseApi()
        self.losses = []
        self.keepers = []

    def keeper(self, identity="us", **options):
        @contextlib.asynccontextmanager
        async def connect():
            yield self.api

        keeper = LeaseKeeper(
            settings(identity, **QUICK), connect, on_lost=self.losses.append, **options
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


async def until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


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
    first = stage.keeper("first")
    await first.wait_until_leading()
    second = stage.keeper("second")
    await asyncio.sleep(0.1)
    assert not second.is_leading

    await first.release()

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
    path = settings().path
    stage.api.leases[path] = json.loads(encode_lease(held_by("them", version="77")))

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
    await asyncio.sleep(0.05)

    await second.release()

    assert await waiting is False
    assert stage.api.holder == "first"


async def test_a_cancelled_wait_does_not_end_the_keeper(stage):
    await stage.keeper("first").wait_until_leading()
    second = stage.keeper("second")
    waiting = asyncio.create_task(second.wait_until_leading())
    await asyncio.sleep(0.05)
    waiting.cancel()

    await stage.keepers[0].release()

    assert await second.wait_until_leading()


async def test_a_keeper_that_breaks_tells_whoever_waits_and_ends_the_standby():
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


async def test_the_observer_hears_of_holders_and_failures(stage):
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


def test_micro_time_has_six_digits():
    assert micro_time(WALL) == STAMP
    assert micro_time(WALL.replace(microsecond=0)) == "2026-07-01T12:00:00.000000Z"
