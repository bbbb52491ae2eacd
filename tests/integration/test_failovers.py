"""A short run of `make failovers`: leaders are killed, paused and replaced under load."""

from __future__ import annotations

import random

import pytest

from hack.binaries import MissingBinariesError
from hack.failovers import Arena, Times, kills, pause, relays, summary

pytestmark = pytest.mark.integration

# Long enough that a busy machine does not cost a leader its lease.
SHORT = Times(lease=6, renew=5, retry=0.5)


@pytest.fixture(scope="module")
def arena():
    try:
        with Arena(SHORT, pods_per_second=30) as started:
            yield started
    except MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)


def test_every_pod_is_bound_once_across_failovers(arena):
    """The audit log of the API server is the witness."""
    arena.begin_load()
    (takeover,) = kills(arena, 1, random.Random(0))
    assert takeover.binding_seconds >= takeover.lease_seconds > 0
    assert takeover.renewal_seconds >= SHORT.lease, "never sooner than the lease runs out"
    assert pause(arena) > 0, "it began no binding, and ended with 1"

    survivor = arena.start()
    pods = arena.check_that_all_are_bound_once()
    assert survivor.stop() == 0
    assert f"{pods} pods, each bound once" in summary([takeover], SHORT, pods)


def test_the_lease_passes_between_kube_scheduler_and_us(arena):
    assert len(list(relays(arena))) == 4
