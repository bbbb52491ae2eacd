"""Many simulated runs in parallel: ``make simulation``.

Every run is drawn from its seed alone; a run that fails prints the command that repeats it.
"""

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import structlog

from hack.decisions import Decisions
from scheduler.process.heap import freeze_heap
from tests.simulation.simulation import MOST_STEPS, Outcome, simulate

_RUNS: Final = 10_000
_TOLD: Final = 10
_PROGRESS: Final = 1000


def main() -> int:
    options = _parse(sys.argv[1:])
    if options.seed is not None:
        work = (options.seed, options.steps, options.kills)
        return _count([_simulate(work)], Decisions(options.decisions))
    seeds = range(options.first, options.first + options.runs)
    # Unlike a multiprocessing.Pool, it raises when a worker dies.
    with ProcessPoolExecutor(options.jobs, initializer=freeze_heap) as pool:
        runs = ((seed, options.steps, options.kills) for seed in seeds)
        outcomes = pool.map(_simulate, runs, chunksize=8)
        return _count(outcomes, Decisions(options.decisions))


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=_RUNS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--steps", type=int, default=MOST_STEPS, help="of a run, at most")
    parser.add_argument("--no-kills", dest="kills", action="store_false", help="kill no process")
    parser.add_argument("--decisions", type=Path, metavar="FILE", help="write a digest for each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(words)


def _simulate(work: tuple[int, int, bool]) -> Outcome:
    _be_silent()
    seed, steps, kills = work
    return simulate(seed, most_steps=steps, kills=kills)


def _be_silent() -> None:
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)


def _count(outcomes: Iterable[Outcome], decisions: Decisions) -> int:
    """Print what went wrong and the totals; return the exit code."""
    runs = steps = violations = 0
    faults: Counter[str] = Counter()
    killed_at: set[str] = set()
    for outcome in outcomes:
        runs += 1
        steps += outcome.steps
        faults.update(outcome.kinds)
        killed_at.update(outcome.killed_at)
        decisions.add([outcome.seed, outcome.decisions])
        if outcome.violation:
            violations += 1
            if violations <= _TOLD:
                print(outcome.report(), flush=True)
        if not runs % _PROGRESS:
            print(f"... {runs} runs, {violations} violations", flush=True)
    kinds = ", ".join(f"{count} {kind}" for kind, count in faults.most_common())
    print(f"faults: {kinds}; killed at {len(killed_at)} places")
    print(f"decisions: {decisions.digest}")
    total = faults.total()
    print(f"simulation: {runs} runs, {steps} steps, {total} faults, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
