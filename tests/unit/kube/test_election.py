"""The election as a state machine: what to do, and when."""

import json
import random

import pytest

from scheduler.errors import Conflict, NotFound, Throttled, Unreachable
from scheduler.kube.election import (
    TRANSITIONS,
    Cause,
    Create,
    Election,
    Lease,
    LeaseRecord,
    Read,
    Replace,
    Resign,
    Standing,
    Wait,
    decode_lease,
    encode_lease,
    micro_time,
)
from tests.unit.kube.leases import EARLIER, STAMP, WALL, held_by, settings


def election(**times):
    return Election(settings(**times), rng=random.Random(3))


def leading(at=100.0):
    """Return an election that was won by a request begun at *at* and answered a second later."""
    candidate = election()
    candidate.next_action(at - 1, WALL)
    candidate.note_absent(at - 1)
    create = candidate.next_action(at, WALL)
    candidate.note_written(create.lease, at + 1)
    assert candidate.standing is Standing.LEADING
    return candidate


def standby_after(lease, at=100.0):
    candidate = election()
    assert isinstance(candidate.next_action(at, WALL), Read)
    candidate.note_read(lease, at)
    return candidate


def test_the_table_has_every_cause():
    assert {cause for _, cause in TRANSITIONS.allowed} == set(Cause)


def test_an_absent_lease_is_created_as_client_go_would():
    candidate = election()
    candidate.next_action(100, WALL)
    candidate.note_absent(100)

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
    candidate.note_watched(held_by("them", version="3"), 114)

    assert isinstance(candidate.next_action(114.9, WALL), Wait)
    action = candidate.next_action(115, WALL)
    assert isinstance(action, Replace)
    assert action.lease.metadata["resourceVersion"] == "3"


@pytest.mark.parametrize(("seconds", "expiry"), [(15, 15), (60, 60), (1, 1), (None, 15)])
def test_the_duration_in_the_record_decides_the_expiry(seconds, expiry):
    lease = held_by("them", seconds=seconds)
    candidate = standby_after(lease, at=100)
    candidate.note_watched(lease, 100 + expiry - 0.5)

    assert isinstance(candidate.next_action(100 + expiry - 0.1, WALL), Wait)
    assert isinstance(candidate.next_action(100 + expiry, WALL), Replace)


def test_a_standby_reads_again_after_the_retry_time_with_jitter():
    waits = set()
    for seed in range(50):
        candidate = Election(settings(), rng=random.Random(seed))
        candidate.next_action(100, WALL)
        candidate.note_read(held_by("them"), 100)
        waits.add(candidate.next_action(100, WALL).seconds)

    assert len(waits) == 50
    assert all(2 <= wait <= 2 * 2.2 for wait in waits)


def test_a_standby_writes_in_the_moment_the_lease_expires():
    """Otherwise a takeover would come later than it may, by a retry time or by a read."""
    candidate = standby_after(held_by("them", version="7"), at=100)
    at, reads = 100.0, 0
    while not isinstance(action := candidate.next_action(at, WALL), Replace):
        if isinstance(action, Wait):
            at += action.seconds
            continue
        reads += 1
        candidate.note_read(held_by("them", version="7"), at)

    assert at == pytest.approx(115)
    assert 3 <= reads <= 7, "it reads periodically"
    assert action.lease.metadata["resourceVersion"] == "7"


def test_a_renewal_that_a_standby_has_not_seen_is_a_conflict_and_counts_from_then():
    candidate = standby_after(held_by("them", renewed="r1"), at=100)
    candidate.note_watched(held_by("them", renewed="r1"), 114)
    assert isinstance(candidate.next_action(115, WALL), Replace)
    candidate.note_failed(Conflict("409"), 115)

    assert isinstance(candidate.next_action(115, WALL), Read)
    candidate.note_read(held_by("them", renewed="r2"), 115)
    candidate.note_watched(held_by("them", renewed="r2"), 129)

    assert isinstance(candidate.next_action(129.9, WALL), Wait)
    assert isinstance(candidate.next_action(130, WALL), Replace)


def test_what_a_watch_shows_counts_like_what_was_read():
    candidate = standby_after(held_by("them", renewed="r1"), at=100)
    for at in range(101, 150):
        candidate.note_watched(held_by("them", renewed=f"r{at}"), at)
        assert isinstance(candidate.next_action(at, WALL), Wait)
        assert isinstance(candidate.next_action(at + 1.9, WALL), Wait), "nothing has to be asked"

    assert isinstance(candidate.next_action(149 + 4.4, WALL), Read), "the watch may be dead"


def test_after_a_release_that_a_watch_shows_the_lease_is_written_at_once():
    candidate = standby_after(held_by("them"), at=100)
    assert isinstance(candidate.next_action(101, WALL), Wait)

    candidate.note_watched(held_by("", renewed="r2"), 101)

    assert isinstance(candidate.next_action(101, WALL), Replace)


def test_a_watch_that_lags_behind_a_read_does_not_prolong_a_dead_lease():
    candidate = standby_after(held_by("them", renewed="r10", version="10"), at=100)

    candidate.note_watched(held_by("them", renewed="r9", version="9"), 114)

    assert candidate.version == "10"
    candidate.note_watched(held_by("them", renewed="r10", version="10"), 114)
    assert isinstance(candidate.next_action(115, WALL), Replace)


def test_a_read_counts_whatever_its_version_as_after_a_restored_backup():
    candidate = standby_after(held_by("them", renewed="r10", version="10"), at=100)
    candidate.next_action(105, WALL)
    candidate.note_read(held_by("them", renewed="r3", version="3"), 105)

    candidate.note_watched(held_by("them", renewed="r4", version="4"), 106)

    assert candidate.version == "4"


@pytest.mark.parametrize("watched", [True, False])
def test_a_lease_deleted_under_its_holder_expires_as_if_it_were_there(watched):
    """The holder goes on until it sees that; it writes its record again, or stops leading."""
    candidate = standby_after(held_by("them"), at=100)
    if watched:
        candidate.note_watched(None, 105)
    else:
        candidate.next_action(105, WALL)
        candidate.note_absent(105)
    at = 105.0
    while not isinstance(action := candidate.next_action(at, WALL), Create):
        if isinstance(action, Wait):
            at += action.seconds
        else:
            candidate.note_absent(at)

    assert at == pytest.approx(115)


def test_a_deleted_lease_that_its_holder_wrote_again_is_alive():
    candidate = standby_after(held_by("them"), at=100)
    candidate.note_watched(None, 105)
    candidate.note_watched(held_by("them", renewed="r2", version="2"), 107)
    candidate.note_watched(held_by("them", renewed="r2", version="2"), 121)

    assert isinstance(candidate.next_action(121.9, WALL), Wait)
    assert isinstance(candidate.next_action(122, WALL), Replace)


def test_a_leader_does_not_listen():
    candidate = leading(at=100)

    candidate.note_watched(held_by("them"), 102)
    candidate.note_watched(None, 102)

    assert candidate.leading_until == 110
    assert candidate.holder == "us"


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


def test_a_leader_that_meets_a_conflict_reads_at_once_and_writes_again_if_still_ours():
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
    candidate.note_absent(105)

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
    candidate.note_watched(held_by(""), 110)
    assert candidate.next_action(110, WALL) == Wait(20), "whatever a watch tells"


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


def test_micro_time_has_six_digits():
    assert micro_time(WALL) == STAMP
    assert micro_time(WALL.replace(microsecond=0)) == "2026-07-01T12:00:00.000000Z"
