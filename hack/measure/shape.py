"""The shape of a tree of code, as its text shows it.

Docstrings count neither as length of a function nor as comments.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOR_A_TOOL: Final = re.compile(r"#!|# (noqa|type|fmt|ruff|mypy|pragma)\b")
_HAS_REASON: Final = re.compile(r"# (noqa|type)\b.* [-#] ")


@dataclass
class Shape:
    """What was counted in one tree.

    Args:
        files: The lines of each file, by path.
        functions: The lines of each function, without its docstring.
        docstring_lines: Lines of all docstrings.
        comments: Comments that tell a reader something, on lines of their own or behind code; what
            is there for a tool alone (``noqa`` without a reason) is left out.
        assertions: ``assert`` statements.
        constructors: The arguments that each ``__init__`` takes besides self, by class. Dataclasses
            and structs have none that is written by hand, and are left out.
    """

    files: dict[str, int] = field(default_factory=dict)
    functions: list[int] = field(default_factory=list)
    docstring_lines: int = 0
    comments: int = 0
    assertions: int = 0
    constructors: dict[str, int] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return sum(self.files.values())

    @property
    def comment_percentage(self) -> float:
        """Comments per hundred lines that are no docstring."""
        return 100 * self.comments / max(1, self.lines - self.docstring_lines)

    @property
    def assertion_percentage(self) -> float:
        """Assertions per hundred lines."""
        return 100 * self.assertions / max(1, self.lines)

    def largest(self, number: int) -> list[tuple[str, int]]:
        """Return the longest files, the longest first."""
        return sorted(self.files.items(), key=lambda item: (-item[1], item[0]))[:number]

    def longest_constructors(self, number: int) -> list[tuple[str, int]]:
        """Return the constructors with the most arguments."""
        return sorted(self.constructors.items(), key=lambda item: (-item[1], item[0]))[:number]


def measure(tree: Path, *, without: str = "") -> Shape:
    """Return the shape of all Python files below *tree*, but for its folder *without*."""
    shape = Shape()
    for path in sorted(tree.rglob("*.py")):
        if without and tree / without in path.parents:
            continue
        text = path.read_text()
        name = path.relative_to(tree.parent).as_posix()
        shape.files[name] = text.count("\n")
        shape.comments += sum(1 for _ in _comments(text))
        _count(ast.parse(text), name, shape)
    return shape


def _comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (
            not _FOR_A_TOOL.match(token.string) or _HAS_REASON.match(token.string)
        ):
            yield token.string


def _count(module: ast.Module, name: str, shape: Shape) -> None:
    for node in ast.walk(module):
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        docstring_lines = _docstring_lines(node) if isinstance(node, documented) else 0
        shape.docstring_lines += docstring_lines
        shape.assertions += isinstance(node, ast.Assert)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            shape.functions.append(length - docstring_lines)
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    shape.constructors[f"{name}: {node.name}"] = _arguments(each)


def _docstring_lines(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> int:
    docstring = ast.get_docstring(node, clean=False)
    return docstring.count("\n") + 1 if docstring else 0


def _arguments(constructor: ast.FunctionDef) -> int:
    found = constructor.args
    named = len(found.posonlyargs) + len(found.args) + len(found.kwonlyargs) - 1
    return named + (found.vararg is not None) + (found.kwarg is not None)
