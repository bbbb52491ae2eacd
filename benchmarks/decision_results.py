"""What decisions cost, as values, tables and a file."""

from __future__ import annotations

import statistics
import textwrap
from pathlib import Path  # noqa: TC003 - part of the signatures that tools read
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.results import Machine  # noqa: TC001 - msgspec reads annotations
from benchmarks.tables import ABSENT, table

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE: Final = "decision.json"
_PLUGINS_SHOWN: Final = 6
_SHOWN_AT: Final = 5000
_LINE: Final = 116
_PLAIN: Final = "plain"
Key = tuple[str, int, int, bool]


class Cost(msgspec.Struct, frozen=True):
    """What decisions about one kind of pod cost in one cluster, in microseconds of CPU.

    Args:
        warm: Whether answers about earlier pods of the template were kept.
        first: The first decision of all.
        plugins: The mean of each plugin and extension point.
    """

    kind: str
    nodes: int
    pods: int
    warm: bool
    median: float
    p99: float
    first: float
    plugins: dict[str, float]

    @property
    def key(self) -> Key:
        """What tells this cost from others of a report."""
        return self.kind, self.nodes, self.pods, self.warm

    @property
    def line(self) -> str:
        """The cost in one line, for whoever waits."""
        warmth = "warm" if self.warm else "cold"
        return f"{self.kind}, {self.nodes:,} nodes, {warmth}: {self.median:,.0f} µs"


class Memory(msgspec.Struct, frozen=True):
    """What the cluster takes in memory, as `benchmarks.memory` measures it."""

    nodes: int
    pods: int
    node_bytes: float
    pod_bytes: float


class DecisionReport(msgspec.Struct, frozen=True):
    """All that was measured of one commit."""

    machine: Machine
    costs: list[Cost]
    memory: Memory | None

    def median_with(self, others: Sequence[DecisionReport]) -> DecisionReport:
        """Return the median of this report and *others*, which measured the same."""
        turns = [self, *others]
        costs = []
        for of_turns in zip(*(report.costs for report in turns), strict=True):
            assert len({cost.key for cost in of_turns}) == 1, "the turns measured different things"
            costs.append(
                msgspec.structs.replace(
                    of_turns[0],
                    median=statistics.median(cost.median for cost in of_turns),
                    p99=statistics.median(cost.p99 for cost in of_turns),
                    first=statistics.median(cost.first for cost in of_turns),
                )
            )
        return msgspec.structs.replace(self, costs=costs)


def save_decisions(report: DecisionReport, directory: Path) -> None:
    """Write a report, over an earlier one."""
    directory.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(report), indent=1)
    (directory / FILE).write_bytes(content + b"\n")


def load_decisions(directory: Path) -> DecisionReport | None:
    """Read the report of a directory; None where there is none."""
    path = directory / FILE
    return msgspec.json.decode(path.read_bytes(), type=DecisionReport) if path.exists() else None


def report_tables(report: DecisionReport) -> str:
    """Return all tables of a report, for a terminal."""
    nodes = sorted({cost.nodes for cost in report.costs})
    parts = [kinds_table(report, each) for each in nodes]
    parts += [sizes_table(report), plugins_list(report), memory_table(report)]
    return "\n\n".join(part for part in parts if part)


def kinds_table(report: DecisionReport, nodes: int) -> str:
    """Return what each kind costs with so many nodes, also in plain pods of the same warmth."""
    plain = {c.warm: c.median for c in report.costs if c.kind == _PLAIN and c.nodes == nodes}
    found = {(cost.kind, cost.warm): cost for cost in report.costs if cost.nodes == nodes}
    head = (
        f"µs, {nodes:,} nodes",
        "cold",
        "p99",
        "in plain",
        "warm",
        "p99",
        "in plain",
        "warm/cold",
    )
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in found):
        row = [kind]
        for warm in (False, True):
            cost = found.get((kind, warm))
            row += _cells(cost, plain.get(warm, 0.0)) if cost else [ABSENT] * 3
        cold, kept = found.get((kind, False)), found.get((kind, True))
        row.append(f"{kept.median / cold.median:.2f}" if cold and kept else ABSENT)
        rows.append(row)
    return table(head, rows)


def _cells(cost: Cost, plain: float) -> list[str]:
    multiple = f"{cost.median / plain:.2f}" if plain else ABSENT
    return [f"{cost.median:,.0f}", f"{cost.p99:,.0f}", multiple]


def sizes_table(report: DecisionReport) -> str:
    """Return the median of each kind by the number of nodes, cold / warm."""
    sizes = sorted({cost.nodes for cost in report.costs})
    found = {(cost.kind, cost.nodes, cost.warm): cost.median for cost in report.costs}
    rows = []
    for kind in dict.fromkeys(cost.kind for cost in report.costs):
        cells = []
        for size in sizes:
            both = (found.get((kind, size, warm)) for warm in (False, True))
            cells.append(" / ".join(ABSENT if each is None else f"{each:,.0f}" for each in both))
        rows.append([kind, *cells])
    return table(("µs cold / warm; nodes", *(f"{size:,}" for size in sizes)), rows)


def plugins_list(report: DecisionReport) -> str:
    """Return what the dearest plugins cost each kind, with the most nodes up to 5,000."""
    sizes = {cost.nodes for cost in report.costs if cost.plugins}
    if not sizes:
        return ""
    nodes = max((size for size in sizes if size <= _SHOWN_AT), default=min(sizes))
    lines = [f"Microseconds of the dearest plugins, {nodes:,} nodes:", ""]
    for cost in report.costs:
        if cost.nodes == nodes:
            dearest = sorted(cost.plugins.items(), key=lambda item: -item[1])[:_PLUGINS_SHOWN]
            words = ", ".join(f"{plugin} {each:,.0f}" for plugin, each in dearest)
            line = f"* {cost.kind}, {'warm' if cost.warm else 'cold'}: {words or 'none asked'}"
            lines += textwrap.wrap(line, _LINE, subsequent_indent="  ")
    return "\n".join(lines)


def memory_table(report: DecisionReport) -> str:
    """Return what a node and a pod take in the cache."""
    memory = report.memory
    if memory is None:
        return ""
    head = ("cluster", "bytes a node", "bytes a pod")
    name = f"{memory.nodes:,} nodes, {memory.pods:,} pods"
    return table(head, [(name, f"{memory.node_bytes:,.0f}", f"{memory.pod_bytes:,.0f}")])


def compare_tables(ours: DecisionReport, other: DecisionReport) -> str:
    """Return our medians beside those of another commit.

    A commit that kept no answers has no warm decisions: ours are compared with its cold ones.
    """
    before = {cost.key: cost.median for cost in other.costs}
    rows = []
    for cost in ours.costs:
        cold = (*cost.key[:-1], False)
        earlier = before.get(cost.key, before.get(cold))
        rows.append(
            (
                cost.line.partition(":")[0],
                f"{cost.median:,.0f}",
                ABSENT if earlier is None else f"{earlier:,.0f}",
                ABSENT if earlier is None else f"{cost.median / earlier:.2f}",
            )
        )
    if ours.memory and other.memory:
        per_pod, earlier_per_pod = ours.memory.pod_bytes, other.memory.pod_bytes
        ratio = f"{per_pod / earlier_per_pod:.2f}"
        rows.append(("bytes a pod", f"{per_pod:,.0f}", f"{earlier_per_pod:,.0f}", ratio))
    return table(("µs", ours.machine.commit, other.machine.commit, "ratio"), rows)
