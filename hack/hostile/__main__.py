"""``make hostile``: what objects as odd as an API server accepts cost others.

Three parts, all by default. *inside*: each kind in a process of its own, in CPU time. *churn*: many
pods with ever new names of everything; every table must be back at its start. *live*: each kind on
a real control plane, py-scheduler and kube-scheduler beside each other.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.hostile import judge
from hack.hostile.churn import churn, kept_problems
from hack.hostile.kind import FULL_BYTES
from hack.hostile.kinds import KINDS
from hack.hostile.live import live
from hack.hostile.measure import Settings, measure
from scheduler.observe.logs import configure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hack.hostile.churn import Kept
    from hack.hostile.kind import Json, Kind
    from hack.hostile.measure import Cost

PARTS: Final = ("inside", "churn", "live")
_CHURN_NODES: Final = 100
"""Churn is about tables that grow with pods, not with nodes."""
_HEADER: Final = (
    f"{'':62}{'KB':>7}{'plain':>7}{'beside':>8}{'times':>7}{'step':>7}{'own':>9}"
    f"{'bound':>6}{'parked':>7}{'MB':>7}{'kept':>6}"
)


def main() -> int:
    """Run the parts, print tables, and return the exit code."""
    options = _options()
    # What the core in this process logs about its pods is not what is measured.
    configure("critical", "json", sys.stderr)
    chosen = [kind for kind in KINDS if options.only in kind.name]
    settings = Settings(options.nodes, options.objects, options.kilobytes * 1000, options.probes)
    results: dict[str, list[Json]] = {}
    problems: list[str] = []
    if "inside" in options.parts:
        results["inside"] = list(_inside(chosen, settings, options.seconds, problems))
    if "churn" in options.parts:
        results["churn"] = [_churn(options.pods, min(options.nodes, _CHURN_NODES), problems)]
    if "live" in options.parts:
        results["live"] = live(chosen, settings, options.minutes, problems)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    for problem in problems:
        print(f"beyond the limits: {problem}")
    print(f"hostile: {f'{len(problems)} problems' if problems else 'all within the limits'}")
    return bool(problems)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.hostile", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=10, help="hostile objects of a kind")
    parser.add_argument("--kilobytes", type=int, default=FULL_BYTES // 1000, help="of each object")
    parser.add_argument("--probes", type=int, default=40, help="plain pods measured at a time")
    parser.add_argument("--pods", type=int, default=100_000, help="that churn creates and deletes")
    parser.add_argument("--minutes", type=float, default=0.0, help="of churn on the control plane")
    parser.add_argument("--seconds", type=float, default=600.0, help="that one kind may take")
    parser.add_argument("--json", type=Path, help="write all figures there")
    return parser.parse_args()


def _inside(
    kinds: Sequence[Kind], settings: Settings, seconds: float, problems: list[str]
) -> Iterator[Json]:
    """Measure *kinds* one after the other, and yield the costs."""
    print(
        f"inside: {settings.nodes} nodes, {settings.objects} objects of up to "
        f"{settings.size // 1000} KB; milliseconds of CPU time\n{_HEADER}"
    )
    for kind in kinds:
        cost, slower = _in_a_process(kind, settings, seconds)
        if isinstance(cost, str):
            problems.append(f"{kind.name}: {cost}")
            print(f"{kind.name:62} {cost}", flush=True)
            yield {"kind": kind.name, "problem": cost}
            continue
        found = [f"{kind.name}: {each}" for each in judge.problems(cost, slower=slower)]
        problems += found
        print(row(cost) + ("  !" if found else ""), flush=True)
        yield cost.document | {"slower": slower, "problems": found}


def row(cost: Cost) -> str:
    """Return one line of the table."""
    step = max(cost.arrival_step, cost.beside_step)
    return (
        f"{cost.kind:62}{cost.bytes / 1e3:7.0f}{cost.plain * 1e3:7.2f}{cost.beside * 1e3:8.2f}"
        f"{cost.slowdown:7.1f}{step * 1e3:7.0f}{cost.own * 1e3:9.1f}"
        f"{cost.done:6}{cost.parked:7}{cost.grown / 1e6:7.1f}{cost.kept / 1e6:6.1f}"
    )


def _in_a_process(kind: Kind, settings: Settings, seconds: float) -> tuple[Cost | str, float]:
    """Measure in a process of its own, so that memory is that of one kind."""
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[tuple[Cost | str, float]] = context.Queue()
    child = context.Process(target=_measure, args=(kind, settings, answers))
    child.start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return f"not over after {seconds:.0f} s", 1.0
    finally:
        child.terminate()
        child.join()


def _measure(
    kind: Kind,
    settings: Settings,
    answers: multiprocessing.Queue[tuple[Cost | str, float]],
) -> None:
    try:
        answers.put((measure(kind, settings), judge.slowness()))
    except Exception as problem:  # noqa: BLE001 - whatever a kind breaks is a finding
        answers.put((f"{type(problem).__name__}: {problem}", 1.0))


def _show(kept: Kept) -> None:
    print(
        f"churn: {kept.pods} pods have come and gone; {kept.memory / 1e6:.1f} MB in use, "
        f"{sum(kept.caches.values()) / 1e6:.2f} MB of it in caches",
        flush=True,
    )


def _churn(pods: int, nodes: int, problems: list[str]) -> Json:
    found = churn(pods, nodes, tell=_show)
    problems += [f"churn: {each}" for each in kept_problems(found, nodes)]
    return {
        "pods": [kept.pods for kept in found],
        "memory": [kept.memory for kept in found],
        "caches": [kept.caches for kept in found],
        "tables": [dict(kept.tables) for kept in found],
    }


if __name__ == "__main__":
    sys.exit(main())
