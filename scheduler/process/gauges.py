"""Gauges that each scrape reads from their owners: pods that wait, sizes, and leadership."""

import asyncio
from collections.abc import Callable

from scheduler.loop.core import SchedulerCore
from scheduler.observe import families
from scheduler.observe.metrics import Metrics
from scheduler.process.watches import Watches


def read_gauges(
    metrics: Metrics,
    core: SchedulerCore,
    watches: Watches,
    *,
    lease: str,
    leads: Callable[[], bool],
) -> None:
    """Let *metrics* read *core* and *watches* at each scrape.

    Nothing keeps these numbers up to date in between, so they cannot drift from what they count.
    *lease* is the label of the gauge that says whether this process *leads*.
    """
    metrics.read(families.PENDING_PODS, core.queue.counts)
    metrics.read(families.INFLIGHT_EVENTS, core.queue.in_flight_counts)
    metrics.read(families.INBOX_FACTS, lambda: _unlabelled(len(core.inbox)))
    metrics.read(families.PENDING_AGE, lambda: _pending_age(core))
    metrics.read(families.DISTRUST, lambda: _unlabelled(len(core.other_schedulers.ledger)))
    metrics.read(families.FOREIGN_NOMINATIONS, lambda: _unlabelled(core.queue.foreign_nominations))
    metrics.read(families.WATCH_SILENCE, lambda: _watch_silence(watches))
    metrics.read(families.UNCONFIRMED_BINDING_AGE, lambda: _unconfirmed_age(core))
    metrics.read(families.CACHE_SIZE, core.cache.sizes)
    metrics.read(families.GOROUTINES, lambda: _tasks(core))
    metrics.read(families.TASKS, lambda: _unlabelled(len(asyncio.all_tasks())))
    metrics.read(families.LEADER, lambda: {lease: int(leads())})


def _pending_age(core: SchedulerCore) -> dict[tuple[str, ...], float]:
    oldest = core.queue.oldest()
    return {(): 0.0 if oldest is None else core.clock.now() - oldest}


def _watch_silence(watches: Watches) -> dict[str, float]:
    silences = ((resource, each.silence_seconds) for resource, each in watches.reflectors.items())
    return {resource: seconds for resource, seconds in silences if seconds is not None}


def _unconfirmed_age(core: SchedulerCore) -> dict[tuple[str, ...], float]:
    return _unlabelled(core.binding.watch_lag.oldest(core.clock.now()))


def _tasks(core: SchedulerCore) -> dict[str, float]:
    return {"binding": core.binding.in_flight, "DefaultPreemption": core.evictions.in_flight}


def _unlabelled(value: float) -> dict[tuple[str, ...], float]:
    """Return the value of a gauge without labels."""
    return {(): value}
