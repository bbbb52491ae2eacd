"""Tasks that run beside the loop, and what their end means."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from scheduler.reporting.telemetry import Telemetry

_LAG_PROBE_SECONDS: Final = 0.5
STUCK_SECONDS: Final = 60.0
"""A loop that has run no task for so long will not go on: no step of ours takes a tenth of that."""


async def run_and_wait(work: Awaitable[None]) -> None:
    """Do *work* and never return: only an exception ends the task.

    The process stops when the first of its tasks ends. Work that is done must not stop it. Work
    that raises must: a process that goes on without it would look healthy for days.
    """
    await work
    await asyncio.Event().wait()


async def restart_forever(
    work: Callable[[], Awaitable[None]],
    report: Callable[[Exception], None],
    pause_seconds: float,
) -> None:
    """Do *work* until cancelled; whenever it raises, *report* that and restart it after a pause."""
    while True:
        try:
            await work()
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is reported
            report(problem)
        await asyncio.sleep(pause_seconds)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel *tasks* and wait for them; raise the first exception among them."""
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.done() for task in tasks), "a task outlives the process"
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError):
            raise result


class Heartbeat:
    """When the event loop last ran a task, for a health check in another thread.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        """Note that the loop runs."""
        self._last = self._clock()

    def check(self) -> str | None:
        """Say for how long the loop has run nothing; None if it runs."""
        seconds = self._clock() - self._last
        return f"no task has run for {seconds:.0f}s" if seconds > STUCK_SECONDS else None


async def measure_loop_lag(
    telemetry: Telemetry,
    heartbeat: Heartbeat,
    clock: Callable[[], float] = time.monotonic,
    cpu_clock: Callable[[], float] = time.thread_time,
) -> None:
    """Measure how late the event loop runs a task that is due, until cancelled.

    A step that computes for long and a thread that gets no CPU make it late alike. What the thread
    computed while it was late tells them apart; it is an upper bound, because what it computed
    before counts as well.

    Args:
        telemetry: Receives how late it was.
        heartbeat: Beats with each measurement.
        clock: Monotonic seconds.
        cpu_clock: Seconds of CPU that the thread has used.
    """
    while True:
        due = clock() + _LAG_PROBE_SECONDS
        computed = cpu_clock()
        await asyncio.sleep(_LAG_PROBE_SECONDS)
        heartbeat.beat()
        late = max(0.0, clock() - due)
        telemetry.loop_stalled(late, min(late, cpu_clock() - computed))
