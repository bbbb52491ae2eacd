"""This process's part in the election."""

import contextlib

import pytest

from hack.waiting import until_async
from scheduler.config.document import LeaderElection
from scheduler.observe.metrics import Metrics
from scheduler.process.leadership import Leadership
from scheduler.reporting.telemetry import Telemetry
from tests.unit.kube.leases import LeaseApi, held_by, settings

ELECTION = LeaderElection(
    lease_duration_seconds=1.0,
    renew_deadline_seconds=0.6,
    retry_period_seconds=0.05,
    resource_namespace="kube-system",
)


class Replica:
    """The leadership of one process, and the API server that holds its lease."""

    def __init__(self, election=ELECTION):
        self.api, self.woken, self.request_seconds = LeaseApi(), 0, 0.0
        self.telemetry = Telemetry(Metrics())
        self.leadership = Leadership(election, self._connect, self.telemetry)

    @contextlib.asynccontextmanager
    async def _connect(self, seconds):
        self.request_seconds = seconds
        yield self.api

    def wake(self):
        self.woken += 1


async def test_a_replica_acts_from_the_lease_to_its_release():
    replica = Replica()
    leadership = replica.leadership
    assert not leadership.may_act()

    leadership.start()
    await leadership.announce(replica.wake)

    assert leadership.may_act()
    assert replica.woken == 1
    assert 0 < replica.request_seconds <= ELECTION.lease_duration_seconds
    assert replica.api.holder == replica.telemetry.identity

    await leadership.release()

    assert not leadership.may_act()
    assert replica.api.holder == ""


async def test_a_standby_that_is_stopped_never_acted():
    replica = Replica()
    replica.api.store(settings().path, held_by("another"))

    replica.leadership.start()
    await until_async(lambda: replica.api.gets, seconds=60.0)
    assert not replica.leadership.may_act()
    await replica.leadership.release()

    assert not replica.leadership.may_act()
    assert replica.api.holder == "another"


async def test_without_an_election_a_process_always_acts():
    replica = Replica(LeaderElection(leader_elect=False))

    replica.leadership.start()
    await replica.leadership.wait()
    await replica.leadership.announce(replica.wake)
    await replica.leadership.release()

    assert replica.leadership.may_act()
    assert (replica.woken, replica.api.leases) == (0, {})


async def test_what_the_table_lacks_does_not_happen():
    leadership = Replica().leadership

    with pytest.raises(AssertionError, match=r"released must not turn \(absent\) into \(absent\)"):
        await leadership.release()
