"""What one decision costs: CPU of the cycle alone, by the kind of pod, the size and the plugin.

A *cold* decision starts from nothing. A *warm* one finds what plugins said about earlier pods of
the same template. Between two decisions the pod is placed, as it would be in a cluster, so that no
decision meets an unchanged table. Pods are decoded anew each time.

With ``--against COMMIT``, that commit's scheduler is measured by this benchmark as well, in turns,
in processes of the same interpreter.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from benchmarks import results
from benchmarks.decision_results import (
    Cost,
    DecisionReport,
    Memory,
    compare_tables,
    report_tables,
    save_decisions,
)
from benchmarks.kinds import KINDS, MEASURED, PLAIN, Kind, PodMaker, cluster, decisions_possible
from benchmarks.trees import Tree, other_commit, run_in_turns, this_commit
from scheduler.config.configuration import read
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Bind
from scheduler.framework.observer import SILENT, Ending, Observer
from scheduler.framework.registry import Registry
from scheduler.plugins import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from scheduler.cache.cluster_cache import ClusterCache
    from scheduler.framework.profile import Profile

NODES_DEFAULT: Final = (100, 1000, 5000)
NODES_ALL: Final = (100, 1000, 5000, 15000, 100_000)
_LIST_BYTES: Final = 16 << 20
_MEMORY_NODES: Final = 5000
_MEMORY_PODS: Final = 50_000


class PluginTimes:
    """An observer that adds up the CPU time of each plugin."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:
        """Measure nothing."""
        return SILENT.extension_point(point)

    @contextlib.contextmanager
    def plugin(self, point: str, plugin: str) -> Iterator[None]:
        """Measure one call."""
        began = time.process_time()
        yield
        self.seconds[f"{plugin} {point}"] += time.process_time() - began

    def evaluated(self, point: str, plugin: str, times: int) -> None:
        """Count nothing."""

    def paused(self, point: str, plugin: str) -> None:
        """Count nothing."""

    def unmeasured(self) -> Observer:
        """Return an observer that measures nothing."""
        return SILENT


def decisions(
    kind: Kind,
    cache: ClusterCache,
    indices: range,
    *,
    templates: Any = None,
    observer: Observer = SILENT,
) -> Iterator[float]:
    """Decide about one pod for each index and place it; yield the CPU seconds of each decision.

    Args:
        templates: What earlier decisions left; None: each starts from nothing.
    """
    profile, maker = _profile(), PodMaker(kind, MEASURED)
    more = {} if templates is None else {"templates": templates}
    for index in indices:
        pod = maker.make(index)
        attempt = Attempt(profile, pod, cache.view(), {}, observer=observer, **more)
        began = time.process_time()
        decision = decide(attempt)
        yield time.process_time() - began
        assert isinstance(decision, Bind), decision
        cache.assume(pod, decision.node)


@functools.cache
def _profile() -> Profile:
    """Return the one profile of this process: kept answers are those of a profile."""
    registry = Registry(IN_TREE)
    return registry.build(read().resolve(registry.available).profiles[0])


def kept_templates() -> Any:
    """Return an object that keeps answers over decisions; None where a commit knows none."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module("scheduler.framework.templates").Templates()
    return None


def measure(name: str, nodes: int, pods: int, count: int, *, by_plugin: bool) -> Iterator[Cost]:
    """Measure one kind of pod in one cluster: cold decisions first, then warm ones."""
    kind = KINDS[name]
    cache = cluster(kind, nodes, pods)
    count = decisions_possible(kind, nodes, count)
    templates = kept_templates()
    first = pods
    for kept in (None, templates) if templates is not None else (None,):
        timed = count - count // 4 if by_plugin else count
        took = list(decisions(kind, cache, range(first, first + timed), templates=kept))
        observer = PluginTimes()
        observed = range(first + timed, first + count)
        for _ in decisions(kind, cache, observed, templates=kept, observer=observer):
            pass
        first += count
        yield Cost(
            kind=name,
            nodes=nodes,
            pods=pods,
            warm=kept is not None,
            median=_microseconds(statistics.median(took)),
            p99=_microseconds(statistics.quantiles(took, n=100)[-1]),
            first=_microseconds(took[0]),
            plugins={
                plugin: _microseconds(seconds / len(observed))
                for plugin, seconds in observer.seconds.items()
            },
        )


def _microseconds(seconds: float) -> float:
    return round(1e6 * seconds, 1)


def _age_the_heap() -> None:
    """Free something large, as every process does that has listed a cluster.

    From then on glibc keeps what is freed. Before, it returns the top of a heap as small as this to
    the kernel after every decision, and the next one pays for getting it back: a quarter of its
    time, of which the scheduler knows nothing.
    """
    np.empty(_LIST_BYTES, dtype=np.uint8).fill(0)


def main() -> None:
    """Measure, in processes of their own, and print tables."""
    options = _options()
    if options.child:
        _measure_here(options)
        return
    with contextlib.ExitStack() as stack:
        trees = [this_commit()]
        if options.against:
            trees.append(stack.enter_context(other_commit(options.against)))
        reports = run_in_turns(trees, options.turns, lambda tree: _report(tree, options))
    for report in reports:
        print(f"\nof {report.machine.commit or 'this commit'}\n\n{report_tables(report)}")
    if options.against:
        print(f"\n{compare_tables(*reports)}")
    save_decisions(reports[0], options.results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decision", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES_DEFAULT)
    parser.add_argument("--pods", type=int, default=0, help="running; two a node by default")
    parser.add_argument("--decisions", type=int, default=300, help="of each kind, cold and warm")
    parser.add_argument("--only", default="", help="kinds whose name contains this, and plain")
    parser.add_argument("--no-plugins", action="store_true", help="do not measure single plugins")
    parser.add_argument("--memory-nodes", type=int, default=_MEMORY_NODES)
    parser.add_argument("--memory-pods", type=int, default=_MEMORY_PODS, help="0: no memory")
    parser.add_argument("--against", metavar="COMMIT", help="another commit, measured in turns")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--results", type=Path, default=results.LOCAL)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure_here(options: argparse.Namespace) -> None:
    """Measure in this process and print one JSON line for each cost."""
    _age_the_heap()
    for nodes in options.nodes:
        pods = options.pods or 2 * nodes
        for name in KINDS:
            if options.only in name or name == PLAIN:
                by_plugin = not options.no_plugins
                for cost in measure(name, nodes, pods, options.decisions, by_plugin=by_plugin):
                    print(msgspec.json.encode(cost).decode(), flush=True)


def _report(tree: Tree, options: argparse.Namespace) -> DecisionReport:
    arguments = ["--child", "--nodes", *map(str, options.nodes), f"--pods={options.pods}"]
    arguments += [f"--decisions={options.decisions}", f"--only={options.only}"]
    arguments += ["--no-plugins"] if options.no_plugins else []
    costs = []
    for line in tree.run("benchmarks.decision", *arguments):
        costs.append(msgspec.json.decode(line, type=Cost))
        print(f"  {tree.name}: {costs[-1].line}", file=sys.stderr)
    machine = msgspec.structs.replace(results.machine(), commit=tree.name)
    return DecisionReport(machine, costs, _memory(tree, options))


def _memory(tree: Tree, options: argparse.Namespace) -> Memory | None:
    """Measure memory; None where nobody wants it, or where a commit is too old for it."""
    if not options.memory_pods:
        return None
    sizes = (f"--nodes={options.memory_nodes}", f"--pods={options.memory_pods}")
    try:
        (line,) = tree.run("benchmarks.memory", "--json", *sizes)
    except subprocess.CalledProcessError as error:
        print(f"  {tree.name}: memory was not measured: {error}", file=sys.stderr)
        return None
    return msgspec.json.decode(line, type=Memory)


if __name__ == "__main__":
    main()
