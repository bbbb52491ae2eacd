"""Tasks that run beside the loop, and what their end means."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from scheduler.reporting.telemetry import Telemetry

_LAG_PROBE_SECONDS: Final = 0.5


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


async def measure_loop_lag(telemetry: Telemetry) -> None:
    """Measure how late the event loop runs a task that is due, until cancelled."""
    while True:
        due = time.monotonic() + _LAG_PROBE_SECONDS
        await asyncio.sleep(_LAG_PROBE_SECONDS)
        telemetry.loop_stalled(max(0.0, time.monotonic() - due))
