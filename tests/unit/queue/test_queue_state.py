"""The table of moves."""

from scheduler.queue.queue_state import TRANSITIONS, Cause, QueueState


def test_every_cause_moves_something():
    assert {cause for _, cause in TRANSITIONS.allowed} == set(Cause)


def test_only_popping_leads_into_flight_and_only_from_where_pods_are_ready():
    popped = {start for start, cause in TRANSITIONS.allowed if cause is Cause.POPPED}
    others = [to for (_, cause), to in TRANSITIONS.allowed.items() if cause is not Cause.POPPED]

    assert popped == {QueueState.ACTIVE, QueueState.BACKOFF}
    assert not any(QueueState.IN_FLIGHT in to for to in others)
