"""Measures schedulers on real control planes, in turns: rates, latencies, CPU, memory, placement.

Repetitions are interleaved: each turn runs every scheduler once on a control plane of its own, so
that what else the machine does meets all of them. All have the same client limits.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from benchmarks import results, workload
from benchmarks.one_run import Measurement, run_once
from benchmarks.progress import Progress
from benchmarks.results import SCHEDULER
from benchmarks.schedulers import EVERY_TIME, SCHEDULERS, command_scheduler
from benchmarks.tables import USUAL, throughput_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.results import Run

DEFAULT_MODES = ("drain", "stream")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the turns and print a table; return 1 if a run failed or a placement was wrong."""
    options = _options(arguments)
    try:
        measurements = list(_measurements(options))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    progress = Progress(len(measurements))
    runs = [run for each in measurements if (run := _measure(each, progress, options.results))]
    print(throughput_tables(runs))
    wrong = [run for run in runs if run.problems]
    for run in wrong:
        print(f"{run.file_name}: {'; '.join(run.problems)}", file=sys.stderr)
    return 1 if wrong or len(runs) < len(measurements) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", default=workload.names())
    parser.add_argument("--scale", choices=workload.SCALES, default=USUAL)
    parser.add_argument(
        "--mode", nargs="+", choices=workload.MODES, default=DEFAULT_MODES, dest="modes"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--first-turn", type=int, default=1, help="to go on with an earlier run")
    parser.add_argument("--schedulers", nargs="*", choices=SCHEDULERS, default=EVERY_TIME)
    parser.add_argument(
        "--command",
        nargs="+",
        default=[],
        dest="commands",
        metavar="NAME=COMMAND",
        help="further schedulers, as in 'mine=/bin/mine --kubeconfig {kubeconfig}'",
    )
    parser.add_argument(
        "--results", type=Path, default=results.LOCAL, help="where the JSON files go"
    )
    parser.add_argument("--list", action="store_true", help="list the workloads and end")
    options = parser.parse_args(arguments)
    if options.list:
        for name in workload.names():
            print(f"{name:40}{workload.load(name, 'full').about}")
        parser.exit()
    return options


def _measurements(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yield all runs in their order: turn by turn within a workload and mode."""
    schedulers = [SCHEDULERS[name] for name in options.schedulers]
    schedulers += [command_scheduler(words) for words in options.commands]
    for name in options.only:
        found = workload.load(name, options.scale)
        for mode in options.modes:
            if mode not in found.modes:
                continue
            for turn in range(options.first_turn, options.first_turn + options.turns):
                for scheduler in schedulers:
                    yield Measurement(found, scheduler, mode, turn)


def _measure(measurement: Measurement, progress: Progress, directory: Path) -> Run | None:
    """Measure once and save the result; None where the run failed, which is shown."""
    name = (
        f"{measurement.workload.name}, {measurement.mode}, {measurement.scheduler.name}, "
        f"turn {measurement.turn}"
    )
    progress.begin(name)
    try:
        run = uvloop.run(run_once(measurement, progress.step))
    except Exception as error:  # noqa: BLE001 - the runs of hours before and after it count
        traceback.print_exception(error)
        progress.end(f"{name}: FAILED: {error}")
        return None
    results.save(run, directory)
    progress.end(_line(run))
    return run


def _line(run: Run) -> str:
    used = run.usage[SCHEDULER]
    waits = f"{run.latency.p50:8.1f} ms p50 {run.latency.p99:8.1f} ms p99" if run.latency else ""
    return (
        f"{run.workload:36} {run.mode:7}{run.scheduler:16}{run.pods_per_second:8.1f} pods/s "
        f"{run.cpu_ms_per_pod:7.2f} ms CPU a pod {used.peak_mb:6.0f} MB {waits}"
        f"{f'  {run.victims} victims' if run.victims else ''}"
        f"{'  WRONG PLACEMENT' if run.problems else ''}"
    )


if __name__ == "__main__":
    sys.exit(main())
