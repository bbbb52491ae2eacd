"""The path of a pod, as the architecture tells it, names functions that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def functions_in(path):
    """The functions of a module: ``name``, or ``Class.name``."""
    body = ast.parse(path.read_text()).body
    classes = [(f"{each.name}.", each.body) for each in body if isinstance(each, ast.ClassDef)]
    return {
        prefix + each.name
        for prefix, members in [("", body), *classes]
        for each in members
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_the_path_of_a_pod_names_functions_that_exist():
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.partition("\n## The path of a pod")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|[^|]*\| (`[^|]+`) \| `(\S+\.py)` \|", section, re.MULTILINE)

    assert len(rows) > 15
    for names, path in rows:
        missing = set(re.findall(r"`([\w.]+)`", names)) - functions_in(ROOT / "scheduler" / path)
        assert not missing, f"{path} has no {missing}"
