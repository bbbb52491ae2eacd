"""Writes tables and charts of committed results into docs/performance.md.

``python -m benchmarks.report`` reads ``benchmarks/results/published`` and replaces what stands
between ``<!-- computed NAME -->`` and ``<!-- end NAME -->``. A test compares the page with the
results, so no figure in those tables was typed. ``--goals`` prints which rows fall short of what we
aim for, and changes nothing.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks import results, tables
from benchmarks.decision_results import (
    kinds_table,
    load_decisions,
    memory_table,
    plugins_list,
    sizes_table,
)
from benchmarks.schedulers import NULL, THEIRS
from benchmarks.svg import Bar, Chart, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.decision_results import DecisionReport
    from benchmarks.results import Machine, Run

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "performance.md"
IMAGES: Final = PAGE.parent / "images"
NOTHING: Final = "No results of a quiet machine are committed yet."
DECISION_NODES: Final = 5000
_BLOCK: Final = re.compile(r"(<!-- computed ([a-z-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
_MODES: Final = ("drain", "stream", "paced")


def blocks(runs: Sequence[Run], decisions: DecisionReport | None) -> dict[str, str]:
    """Return the text of every computed block, by name."""
    found = {"machine": _machines([run.machine for run in runs])}
    for mode in _MODES:
        has = any(run.mode == mode for run in runs)
        found[f"{mode}-rates"] = tables.rates_table(runs, mode) if has else NOTHING
        found[f"{mode}-cost"] = tables.cost_table(runs, mode) if has else NOTHING
        found[f"{mode}-latency"] = tables.latency_table(runs, mode) if has else NOTHING
        found[f"{mode}-servers"] = tables.servers_table(runs, mode) if has else NOTHING
        found[f"{mode}-chart"] = _image(f"Pods bound a second, {mode}", f"rates-{mode}.svg", has)
        found[f"{mode}-cpu-chart"] = _image(f"CPU for each pod, {mode}", f"cpu-{mode}.svg", has)
    return found | _decision_blocks(decisions)


def _decision_blocks(decisions: DecisionReport | None) -> dict[str, str]:
    names = ("kinds", "sizes", "plugins", "memory")
    if decisions is None:
        return {f"decision-{name}": NOTHING for name in (*names, "chart")}
    return {
        "decision-kinds": kinds_table(decisions, DECISION_NODES),
        "decision-sizes": sizes_table(decisions),
        "decision-plugins": plugins_list(decisions) or NOTHING,
        "decision-memory": memory_table(decisions) or NOTHING,
        "decision-chart": _image("CPU of one decision", "decision.svg", is_there=True),
    }


def _image(title: str, name: str, is_there: bool) -> str:
    return f"![{title}](images/{name})" if is_there else NOTHING


def _machines(machines: Sequence[Machine]) -> str:
    """Describe where the runs took place, once for each kind of machine."""
    if not machines:
        return NOTHING
    kinds = dict.fromkeys(
        f"{each.cores} cores ({each.processor}), {each.memory_gib} GiB, {each.system}, "
        f"Python {each.python}, Kubernetes {each.kubernetes.removeprefix('v')}"
        for each in machines
    )
    loads = [each.load_before for each in machines]
    commits = sorted({each.commit for each in machines})
    return (
        f"{'; '.join(kinds)}.\n{len(machines)} runs of {', '.join(commits)}; load average before "
        f"them {min(loads):.1f} to {max(loads):.1f}."
    )


def charts(runs: Sequence[Run], decisions: DecisionReport | None) -> dict[str, str]:
    """Return the charts that there are results for, by file name."""
    found: dict[str, str] = {}
    for mode in _MODES:
        of = tables.by_workload(runs, mode)
        if of:
            rates = _chart(of, f"Pods bound a second, {mode}", "pods/s", _rate)
            cpu = _chart(of, f"CPU of the scheduler for each pod, {mode}", "ms", _cpu)
            found |= {f"rates-{mode}.svg": draw(rates), f"cpu-{mode}.svg": draw(cpu)}
    if decisions is not None:
        found["decision.svg"] = draw(_decision_chart(decisions))
    return found


def _rate(run: Run) -> float:
    return run.pods_per_second


def _cpu(run: Run) -> float:
    return run.cpu_ms_per_pod


def _chart(
    of: Mapping[str, tables.Runs], title: str, unit: str, figure: Callable[[Run], float]
) -> Chart:
    schedulers = tables.schedulers_of(of)
    groups = []
    for name, turns in of.items():
        found = [tables.median_of(turns.get(each, ()), figure) for each in schedulers]
        bars = [None if each is None else Bar(*msgspec.structs.astuple(each)) for each in found]
        groups.append((name, bars))
    return Chart(title, unit, schedulers, groups)


def _decision_chart(decisions: DecisionReport) -> Chart:
    found = {
        (cost.kind, cost.warm): Bar(cost.median)
        for cost in decisions.costs
        if cost.nodes == DECISION_NODES
    }
    kinds = dict.fromkeys(kind for kind, _ in found)
    groups = [(kind, [found.get((kind, False)), found.get((kind, True))]) for kind in kinds]
    return Chart(f"CPU of one decision, {DECISION_NODES:,} nodes", "µs", ("cold", "warm"), groups)


def with_blocks(page: str, texts: Mapping[str, str]) -> str:
    """Return a page with every computed block replaced.

    Raises:
        KeyError: The page has a block that nobody computes.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}{texts[block[2]]}\n{block[3]}", page)


# What we aim for.

DEMANDING: Final = ("affinity", "spread", "mixed", "preempt", "inclusion")
"""Workloads whose names contain one of these ask more of a scheduler than plain pods do."""
_OF_CEILING: Final = 0.9


def shortfalls(runs: Sequence[Run]) -> Iterator[str]:
    """Yield every row that falls short, in words.

    Plain pods: twice kube-scheduler's rate or nine tenths of the ceiling, for a quarter of its CPU.
    Demanding ones: four times or nine tenths, for an eighth. Memory: no more than its own.
    """
    for mode in ("drain", "stream"):
        for name, of in tables.by_workload(runs, mode).items():
            demanding = any(word in name for word in DEMANDING)
            times, share = (4.0, 0.125) if demanding else (2.0, 0.25)
            faster = tables.ratio(of, _rate, THEIRS.name)
            ceiling = tables.ratio(of, _rate, NULL.name)
            cpu = tables.ratio(of, _cpu, THEIRS.name)
            memory = tables.ratio(of, lambda run: run.usage[results.SCHEDULER].peak_mb, THEIRS.name)
            if (faster or 0) < times and (ceiling or 0) < _OF_CEILING:
                yield f"{name}, {mode}: {_words(faster)} times the rate, {_words(ceiling)} of null"
            if cpu is None or cpu > share:
                yield f"{name}, {mode}: {_words(cpu)} of the CPU, {share} is the aim"
            if memory is None or memory > 1:
                yield f"{name}, {mode}: {_words(memory)} of the memory"


def _words(ratio: float | None) -> str:
    return "no figure" if ratio is None else f"{ratio:.2f}"


def main() -> None:
    """Rewrite the page and the charts, or print the shortfalls."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--results", type=Path, default=results.PUBLISHED)
    parser.add_argument("--goals", action="store_true")
    options = parser.parse_args()
    runs, decisions = results.load(options.results), load_decisions(options.results)
    if options.goals:
        print("\n".join(shortfalls(runs)) or "no row falls short")
        return
    PAGE.write_text(with_blocks(PAGE.read_text(), blocks(runs, decisions)))
    drawn = charts(runs, decisions)
    for name, text in drawn.items():
        IMAGES.joinpath(name).write_text(text)
    print(f"{PAGE.name} from {len(runs)} runs; charts: {', '.join(drawn) or 'none'}")


if __name__ == "__main__":
    main()
