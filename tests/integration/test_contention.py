"""Beside kube-scheduler on the same nodes: conflicts happen, and are not repeated.

`make contention` lets them contend for five minutes, with NodeTrust and without.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

# Mostly a quarter of a minute is enough; a busy machine may need longer.
ENOUGH = ["--refusals", "6", "--seconds", "180"]


@pytest.mark.timeout(600)
def test_conflicts_with_kube_scheduler_are_not_repeated():
    command = [sys.executable, "-m", "hack.contention", "--trust", "on", *ENOUGH]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1] == "contention: held"
