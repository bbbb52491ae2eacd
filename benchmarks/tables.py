"""Tables of results in Markdown, which is readable on a terminal as well."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from benchmarks.figures import Spread, spread
from benchmarks.results import SCHEDULER
from benchmarks.schedulers import EVERY_TIME, NULL, OURS, THEIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.results import Run

ABSENT: Final = "-"
USUAL: Final = "small"
"""The size that is measured unless another one is named."""
Runs = dict[str, list["Run"]]
"""The turns of each scheduler."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is text and whose others are numbers."""
    body = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in body) for column in range(len(head))]
    lines = [
        " | ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in body
    ]
    rule = " | ".join(
        "-" * width if column == 0 else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    )
    return "\n".join(f"| {line} |" for line in (lines[0], rule, *lines[1:]))


def by_workload(runs: Iterable[Run], mode: str) -> dict[str, Runs]:
    """Return the runs of a mode by workload and scheduler, workloads in order of their names."""
    found: dict[str, Runs] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: (run.workload, run.scale, run.turn)):
        if run.mode == mode:
            found[label(run)][run.scheduler].append(run)
    return found


def schedulers_of(of_mode: Mapping[str, Runs]) -> list[str]:
    """Return the usual schedulers, and behind them all others that there are runs of."""
    found = dict.fromkeys(EVERY_TIME) | dict.fromkeys(
        each for of in of_mode.values() for each in of
    )
    return list(found)


def label(run: Run) -> str:
    """Return the workload, and its size unless that is the usual one."""
    return run.workload if run.scale == USUAL else f"{run.workload}, {run.scale}"


def rates_table(runs: Iterable[Run], mode: str) -> str:
    """Pods bound a second: median and range, and how they compare."""
    of_mode = by_workload(runs, mode)
    schedulers = schedulers_of(of_mode)
    return table(
        ("pods a second", *schedulers, "times", "of null"),
        (
            (
                name,
                *(_rate(of, scheduler) for scheduler in schedulers),
                ratio_text(of, lambda run: run.pods_per_second, THEIRS.name),
                ratio_text(of, lambda run: run.pods_per_second, NULL.name),
            )
            for name, of in of_mode.items()
        ),
    )


def cost_table(runs: Iterable[Run], mode: str) -> str:
    """What the scheduler's process costs: CPU for each pod, and memory."""
    ours, theirs = OURS.name, THEIRS.name
    head = (ours, "ms CPU a pod", "kube's", "ratio", "peak MB", "kube's", "ratio")
    cost: Callable[[Run], float] = lambda run: run.cpu_ms_per_pod  # noqa: E731
    memory: Callable[[Run], float] = lambda run: run.usage[SCHEDULER].peak_mb  # noqa: E731
    return table(
        head,
        (
            (
                name,
                median_text(of, ours, cost, "{:.2f}"),
                median_text(of, theirs, cost, "{:.2f}"),
                ratio_text(of, cost, theirs),
                median_text(of, ours, memory, "{:.0f}"),
                median_text(of, theirs, memory, "{:.0f}"),
                ratio_text(of, memory, theirs),
            )
            for name, of in by_workload(runs, mode).items()
        ),
    )


def latency_table(runs: Iterable[Run], mode: str) -> str:
    """Milliseconds from creation to binding: the median over turns of each percentile."""
    of_mode = by_workload(runs, mode)
    schedulers = schedulers_of(of_mode)
    return table(
        ("ms p50 / p90 / p99", *schedulers),
        (
            (name, *(_latencies(of.get(scheduler, [])) for scheduler in schedulers))
            for name, of in of_mode.items()
        ),
    )


def servers_table(runs: Iterable[Run], mode: str) -> str:
    """What the API server and etcd cost meanwhile, in two tables."""
    of_mode = by_workload(runs, mode)
    schedulers = schedulers_of(of_mode)
    found = []
    for title, process in (("API server", "kube-apiserver"), ("etcd", "etcd")):
        rows = [
            (name, *(_server(of.get(each, []), process) for each in schedulers))
            for name, of in of_mode.items()
        ]
        found.append(table((f"{title}, ms CPU a pod; peak MB", *schedulers), rows))
    return "\n\n".join(found)


def median_of(runs: Sequence[Run], figure: Callable[[Run], float]) -> Spread | None:
    """Return median and range of a figure; None without runs."""
    return spread([figure(run) for run in runs]) if runs else None


def median_text(
    of: Mapping[str, Sequence[Run]], scheduler: str, figure: Callable[[Run], float], form: str
) -> str:
    """Return the median of a scheduler's figure as text."""
    found = median_of(of.get(scheduler, ()), figure)
    return form.format(found.median) if found else ABSENT


def ratio(
    of: Mapping[str, Sequence[Run]], figure: Callable[[Run], float], other: str
) -> float | None:
    """Return our median as a multiple of another scheduler's; None where one is missing."""
    ours = median_of(of.get(OURS.name, ()), figure)
    theirs = median_of(of.get(other, ()), figure)
    return ours.median / theirs.median if ours and theirs and theirs.median else None


def ratio_text(of: Mapping[str, Sequence[Run]], figure: Callable[[Run], float], other: str) -> str:
    """Return `ratio` as text."""
    found = ratio(of, figure, other)
    return ABSENT if found is None else f"{found:.2f}"


def _rate(of: Mapping[str, Sequence[Run]], scheduler: str) -> str:
    found = median_of(of.get(scheduler, ()), lambda run: run.pods_per_second)
    if found is None:
        return ABSENT
    return f"{found.median:.0f} ({found.lowest:.0f}-{found.highest:.0f})"


def _latencies(runs: Sequence[Run]) -> str:
    found = [run.latency for run in runs if run.latency is not None]
    if not found:
        return ABSENT
    medians = (
        spread([getattr(each, part) for each in found]).median for part in ("p50", "p90", "p99")
    )
    return " / ".join(f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in medians)


def _server(runs: Sequence[Run], process: str) -> str:
    cpu = median_of(runs, lambda run: 1000 * run.usage[process].cpu_seconds / max(1, run.bound))
    peak = median_of(runs, lambda run: run.usage[process].peak_mb)
    return f"{cpu.median:.2f}; {peak.median:.0f}" if cpu and peak else ABSENT


def throughput_tables(runs: Sequence[Run]) -> str:
    """Return every table that there are runs for, for a terminal."""
    parts = []
    for mode in dict.fromkeys(run.mode for run in runs):
        parts += [f"\n{mode}\n", rates_table(runs, mode), "", cost_table(runs, mode), ""]
        if mode != "drain":
            parts += [latency_table(runs, mode), ""]
        parts += [servers_table(runs, mode)]
    return "\n".join(parts)
