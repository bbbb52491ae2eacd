"""Prints the shape of our code: how long files and functions are, and tests to code.

A hint for reviews, never a gate. Docstrings are not counted as length.
"""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    """Print one row for each tree."""
    rows = {tree: measure(tree) for tree in ("scheduler", "hack", "tests")}
    print("tree        files: median/p90/max   functions: median/p90/max   lines")
    for tree, (files, functions) in rows.items():
        print(f"{tree:<12}{_spread(files):<24}{_spread(functions):<28}{sum(files):>6}")
    code, tests = sum(rows["scheduler"][0]), sum(rows["tests"][0])
    print(f"tests : code = {tests / code:.2f}")


def measure(tree: str) -> tuple[list[int], list[int]]:
    """Return the lengths of all files and functions below *tree*."""
    files: list[int] = []
    functions: list[int] = []
    for path in Path(tree).rglob("*.py"):
        text = path.read_text()
        files.append(text.count("\n"))
        functions += _function_lengths(ast.parse(text))
    return files, functions


def _function_lengths(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield length - (docstring.count("\n") + 1 if docstring else 0)


def _spread(lengths: list[int]) -> str:
    if len(lengths) < 2:
        return "-"
    p90 = statistics.quantiles(lengths, n=10)[-1]
    return f"{statistics.median(lengths):g}/{p90:g}/{max(lengths)}"


if __name__ == "__main__":
    main()
