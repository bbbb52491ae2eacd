"""What ``scheduler`` promises to plugin authors."""

import subprocess
import sys
from pathlib import Path

import pytest

import scheduler

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", ["tests/typing/api.py", "examples/*/[!t]*.py"])
def test_code_against_the_public_names_type_checks(module):
    """One run for each folder of examples: they may have modules of the same name."""
    for path in sorted(ROOT.glob(module)):
        command = [sys.executable, "-m", "mypy", "--no-error-summary", str(path)]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def test_every_public_name_is_there():
    missing = [name for name in scheduler.__all__ if not hasattr(scheduler, name)]

    assert not missing
    assert len(set(scheduler.__all__)) == len(scheduler.__all__)


def test_importing_the_public_names_stays_light():
    """A plugin's tests need no HTTP client, and neither does ``py-scheduler --help``."""
    heavy = {"aiohttp", "asyncio", "kubernetes", "prometheus_client", "structlog", "yaml"}
    code = f"import sys, scheduler, scheduler.testing; print(sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert loaded.stdout.strip() == "[]"
