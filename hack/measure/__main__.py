"""Print the shape of our code and the path of a pod through it: ``make measure``."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.measure.path import trace
from hack.measure.shape import Shape, measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hack.measure.path import Path as PodPath

_TREES: Final = ("scheduler", "hack", "tests")
_SHOWN: Final = 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.measure", description=__doc__)
    parser.add_argument("--path", action="store_true", help="list the functions on the path")
    options = parser.parse_args()
    shapes = {tree: measure(Path(tree)) for tree in _TREES}
    _print_table(shapes)
    _print_scheduler(measure(Path("scheduler"), without="testing"))
    _print_path(trace(), listed=options.path)
    return 0


def _print_table(shapes: dict[str, Shape]) -> None:
    print("tree        files: median/p90/max   functions: median/p90/max   lines")
    for tree, shape in shapes.items():
        files, functions = _spread([*shape.files.values()]), _spread(shape.functions)
        print(f"{tree:<12}{files:<24}{functions:<28}{shape.lines:>6}")
    print(f"tests : code = {shapes['tests'].lines / shapes['scheduler'].lines:.2f}")


def _print_scheduler(shape: Shape) -> None:
    print("\nscheduler, without scheduler/testing")
    print(
        f"  comments   {shape.comments}, {shape.comment_percentage:.1f} per 100 lines "
        "without docstrings"
    )
    print(f"  assertions {shape.assertions}, {shape.assertion_percentage:.2f} per 100 lines")
    print("  largest files")
    for name, lines in shape.largest(_SHOWN):
        print(f"  {lines:>5}  {name}")
    print("  constructors with the most arguments (no dataclasses, no structs)")
    for name, arguments in shape.longest_constructors(_SHOWN):
        print(f"  {arguments:>5}  {name}")


def _print_path(path: PodPath, *, listed: bool) -> None:
    print("\na pending pod, from the bytes of its watch event to the POST of its binding")
    print(f"  everything {len(path.everything)} functions in {path.all_modules} modules")
    print(f"  its way    {len(path.way)} functions in {path.way_modules} modules")
    print(f"  the loop's run to a filter plugin: {path.filter_depth} calls deep")
    if listed:
        for name in path.way:
            print(f"    {name}")


def _spread(lengths: Sequence[int]) -> str:
    if len(lengths) < 2:
        return "-"
    p90 = statistics.quantiles(lengths, n=10)[-1]
    return f"{statistics.median(lengths):g}/{p90:g}/{max(lengths)}"


if __name__ == "__main__":
    sys.exit(main())
