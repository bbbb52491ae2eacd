"""Work trees in which a benchmark can run: this one, and that of another commit."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.decision_results import DecisionReport

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Tree:
    """A work tree.

    Args:
        name: Of its commit.
        path: Where it is.
    """

    name: str
    path: Path

    def run(self, module: str, *arguments: str) -> Iterator[str]:
        """Run a module of the tree in a process of this interpreter; yield its lines.

        Raises:
            subprocess.CalledProcessError: It failed; its error output was shown.
        """
        command = [sys.executable, "-m", module, *arguments]
        # The module search begins with the current directory. PYTHONPATH must not lead elsewhere.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with subprocess.Popen(
            command, cwd=self.path, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield line.rstrip("\n")
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)


def this_commit() -> Tree:
    """Return the tree that this file is in."""
    return Tree(_git("describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"), ROOT)


@contextlib.contextmanager
def other_commit(commit: str) -> Iterator[Tree]:
    """Check another commit out, with this tree's benchmarks in place of its own.

    Raises:
        ValueError: There is no such commit.
    """
    try:
        name = _git("rev-parse", "--short=10", "--verify", "--quiet", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        raise ValueError(f"there is no commit {commit!r}") from None
    with tempfile.TemporaryDirectory(prefix="py-scheduler-against-") as directory:
        path = Path(directory) / name
        _git("worktree", "add", "--quiet", "--detach", str(path), name)
        try:
            shutil.rmtree(path / "benchmarks", ignore_errors=True)
            shutil.copytree(ROOT / "benchmarks", path / "benchmarks")
            yield Tree(name, path)
        finally:
            _git("worktree", "remove", "--force", str(path))


def run_in_turns(
    trees: Sequence[Tree], turns: int, measure: Callable[[Tree], DecisionReport]
) -> list[DecisionReport]:
    """Measure every tree once in each turn; return the median of the turns of each."""
    assert turns > 0
    found: list[list[DecisionReport]] = [[] for _ in trees]
    for _ in range(turns):
        for reports, tree in zip(found, trees, strict=True):
            reports.append(measure(tree))
    return [reports[0].median_with(reports[1:]) for reports in found]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()
