import asyncio

import pytest

from scheduler.kube.rate_limit import RateLimiter


class Time:
    """A clock that moves only while somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.pauses = []

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.pauses.append(round(seconds, 6))
        self.now += seconds


async def test_a_burst_leaves_at_once_and_the_rest_at_the_agreed_rate():
    time = Time()
    limiter = RateLimiter(10, 3, clock=time.clock, sleep=time.sleep)

    for _ in range(6):
        await limiter.acquire()

    assert time.pauses == [0.1, 0.1, 0.1]


@pytest.mark.parametrize(("qps", "burst", "free"), [(0, 0, 100), (5, 7, 7), (-1, 1, 1000)])
async def test_zero_means_the_default_and_a_negative_rate_no_limit(qps, burst, free):
    time = Time()
    limiter = RateLimiter(qps, burst, clock=time.clock, sleep=time.sleep)

    for _ in range(free):
        await limiter.acquire()

    assert time.pauses == []


async def test_requests_are_sent_in_the_order_of_their_arrival():
    order = []
    # The clock stands still: a busy machine would refill the bucket between two arrivals.
    limiter = RateLimiter(1000, 1, clock=Time().clock)

    async def ask(name):
        await limiter.acquire()
        order.append(name)

    await asyncio.gather(*(ask(name) for name in range(5)))

    assert order == [0, 1, 2, 3, 4]


async def test_a_cancelled_wait_returns_its_token():
    time = Time()
    limiter = RateLimiter(1, 1, clock=time.clock)
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    time.now = 1.0

    acquired = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    assert acquired.done()
