import math
import random

import pytest

from scheduler.errors import Abandoned, Conflict, Forbidden, Throttled, Unreachable
from scheduler.kube.retry import Backoff, RetrySettings, Tries, retry


class Clock:
    def __init__(self):
        self.pauses = []

    async def sleep(self, seconds):
        self.pauses.append(seconds)

    def settings(self, **changes):
        rng = random.Random(1)
        return RetrySettings(Backoff(1.0, 8.0), sleep=self.sleep, rng=rng, **changes)


def failing(*errors):
    """Return a request that fails with *errors* and then answers."""
    left = list(errors)

    async def request():
        if left:
            raise left.pop(0)
        return b"answer"

    return request


def later(seconds):
    return Throttled("slow down", retry_after_seconds=seconds)


def lost(error):
    return isinstance(error, Unreachable)


def test_pauses_grow_up_to_a_limit_and_never_overflow():
    backoff, rng = Backoff(0.5, 4.0), random.Random(1)

    assert [backoff.seconds(failures, rng) for failures in (0, 1, 2, 3, 4)] == [0.5, 1, 2, 4, 4]
    assert backoff.seconds(100_000, rng) == 4
    assert Backoff(1.0, factor=5.0).seconds(100_000, rng) < math.inf


def test_pauses_are_spread_within_their_bounds():
    backoff, rng = Backoff(1.0, spread=(0.5, 1.5)), random.Random(1)

    pauses = [backoff.seconds(0, rng) for _ in range(500)]

    assert 0.5 <= min(pauses) < 0.6
    assert 1.4 < max(pauses) <= 1.5


async def test_a_429_is_waited_out_though_nothing_else_is_repeated():
    clock, heard = Clock(), []

    answer = await retry(failing(later(3), later(5)), clock.settings(), on_throttled=heard.append)

    assert answer == b"answer"
    assert clock.pauses == heard == [3, 5]
    with pytest.raises(Unreachable):
        await retry(failing(Unreachable("down")), clock.settings())


async def test_a_server_may_put_us_off_for_so_long_in_all():
    clock = Clock()

    with pytest.raises(Throttled):
        await retry(failing(later(6), later(6)), clock.settings(throttled_seconds_maximum=10))

    assert clock.pauses == [6]


async def test_what_may_be_repeated_is_repeated_so_often():
    clock, settings = Clock(), {"tries_maximum": 4}

    errors = [Unreachable(str(number)) for number in range(9)]
    with pytest.raises(Unreachable, match="3"):
        await retry(failing(*errors), clock.settings(**settings), repeats=lost)

    assert clock.pauses == [1, 2, 4]
    with pytest.raises(Forbidden):
        await retry(failing(Forbidden("no")), clock.settings(**settings), repeats=lost)


@pytest.mark.parametrize(("counts", "tries"), [(True, 2), (False, 3)])
async def test_a_429_counts_as_a_try_where_the_settings_say_so(counts, tries):
    clock = Clock()
    settings = clock.settings(tries_maximum=2, throttled_is_try=counts)

    trouble = failing(later(7), Unreachable("1"), Unreachable("2"))
    with pytest.raises(Unreachable):
        await retry(trouble, settings, repeats=lost)

    assert clock.pauses == [7, 1][: tries - 1]


async def test_what_is_not_wanted_any_more_is_not_tried_again():
    clock = Clock()

    with pytest.raises(Abandoned, match="slow down") as caught:
        await retry(failing(later(2)), clock.settings(), wanted=lambda: False)

    assert clock.pauses == [2]
    assert caught.value.status == 429
    assert await retry(failing(), clock.settings(), wanted=lambda: False) == b"answer"


async def test_tries_of_several_requests_share_their_limits():
    clock = Clock()
    tries = Tries(clock.settings(throttled_seconds_maximum=10))

    assert await tries.wait_after(later(6))
    assert await tries.wait_after(Conflict("modified"))
    assert not await tries.wait_after(later(6))
    assert clock.pauses == [6, 1]
