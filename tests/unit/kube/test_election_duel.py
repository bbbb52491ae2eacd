"""The same election, twice, under faults: on one simulated server, and by one true clock."""

import heapq
import itertools
import json
import random
from datetime import timedelta

import pytest

from scheduler.errors import Conflict, NotFound, Unreachable
from scheduler.kube.election import (
    Create,
    Election,
    Read,
    Replace,
    Resign,
    Wait,
    decode_lease,
    encode_lease,
)
from tests.unit.kube.leases import WALL, LeaseApi, settings


class Contender:
    """A process; neither its monotonic clock nor its wall clock agrees with anybody's."""

    def __init__(self, identity, seed, rng):
        self.election = Election(settings(identity), rng=random.Random(seed))
        self.offset = rng.uniform(-1e6, 1e6)
        self.skew = rng.uniform(-1e5, 1e5)
        self.frozen_until = 0.0
        self.wait = None
        self.news = []
        self.listens = False
        self.delivered_at = 0.0

    def leads(self, now):
        return now + self.offset < self.election.leading_until


class Duel:
    """Contenders on one simulated server and one true clock; theirs differ from it.

    Requests and answers are delayed and lost, processes freeze; a request may take effect long
    after its sender gave up on it. Whoever loses the lease is replaced by a new process. Everybody
    watches, and watches lag, fall silent and are opened anew.
    """

    def __init__(self, seed, *, troubled_until=300.0, watched=True):
        self.rng = random.Random(seed)
        self.api = LeaseApi()
        self.now = 0.0
        self.troubled_until = troubled_until
        self.watched = watched
        self.written = {}
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
        self.listen(one)

    def kill(self, one):
        """End a process on the spot; what it had sent may land still."""
        self.contenders.remove(one)

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
        one.wait = None
        if one not in self.contenders:
            return
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
            case Wait() if one.news:
                one.election.note_watched(one.news.pop(), self.now + one.offset)
                self.step(one)
            case Wait(seconds):
                one.wait = wait = object()
                # What a watch tells cuts it short.
                # (A microsecond at least: less would be lost in adding it to the time.)
                until = self.now + max(seconds, 1e-6)
                self.at(until, lambda: one.wait is wait and self.step(one))
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
            self.at(self.now + request.timeout_seconds, lambda: self.receive(one, request, failure))
        else:
            self.at(self.now + back, lambda: self.receive(one, request, answers[0]))

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
            lease = decode_lease(done.value)
        except (Conflict, NotFound) as error:
            return error
        if not isinstance(request, Read):
            self.written[lease.spec.holder_identity] = self.now
            self.broadcast(lease)
        return lease

    # Watches.

    def listen(self, one):
        """Open a watch, which begins with how the lease is now, and ends or hangs some time."""
        one.listens = self.watched
        for lease in self.api.leases.values():
            self.send_to(one, decode_lease(json.dumps(lease)))

    def broadcast(self, lease):
        for one in self.contenders:
            self.send_to(one, lease)

    def send_to(self, one, lease):
        if not one.listens:
            return
        if self.troubled and self.rng.random() < 0.05:
            one.listens = False
            self.at(self.now + self.rng.uniform(2, 20), lambda: self.listen(one))
            return
        slow = self.troubled and self.rng.random() < 0.2
        # A watch may lag for long, but it delivers everything in order.
        one.delivered_at = max(
            one.delivered_at, self.now + self.rng.uniform(0, 20 if slow else 0.05)
        )
        self.at(one.delivered_at, lambda: self.deliver(one, lease))

    def deliver(self, one, lease):
        if self.now < one.frozen_until:
            self.at(one.frozen_until, lambda: self.deliver(one, lease))
            return
        one.news = [lease]
        if one.wait is not None:
            self.step(one)

    def receive(self, one, request, answer):
        if self.now < one.frozen_until:
            self.at(one.frozen_until, lambda: self.receive(one, request, answer))
            return
        now = self.now + one.offset
        match answer:
            case NotFound() if isinstance(request, Read):
                one.election.note_absent(now)
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


def takeover(seed, *, watched):
    """Kill a leader in a quiet world; return how long after its last renewal another led."""
    duel = Duel(seed, troubled_until=0, watched=watched)
    duel.run(until=duel.rng.uniform(30, 40))
    killed = duel.terms[-1]
    duel.kill(killed)
    while duel.terms[-1] is killed:
        duel.run(until=duel.agenda[0][0])
    return duel.now - duel.written[killed.election.settings.identity]


def test_a_standby_that_watches_leads_as_soon_as_the_lease_has_expired():
    """The holder's record says 15 s; a message takes a tenth of a second at most, each way."""
    took = [takeover(seed, watched=True) for seed in range(100)]

    assert min(took) >= 15, "never sooner"
    assert max(took) <= 15 + 0.05 + 0.2 + 0.2, "a watch's line, perhaps a read, and a write"


def test_a_standby_that_may_not_watch_leads_a_retry_time_later_at_most():
    took = [takeover(seed, watched=False) for seed in range(100)]

    assert min(took) >= 15
    assert 16 < max(took) <= 15 + 2 * 2.2 + 0.4
