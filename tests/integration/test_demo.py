"""``make demo``, as somebody runs it who has just cloned the repository."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "hack.demo"]
ROOT = Path(__file__).parents[2]


def _environment(tmp_path):
    return {**os.environ, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8"}


def test_the_demo_shows_where_every_pod_went_and_leaves_nothing_behind(tmp_path):
    run = subprocess.run(
        COMMAND, cwd=ROOT, env=_environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "14 pods: 9 bound, 4 waiting, 1 gated." in run.stdout
    assert re.search(
        r"^database +bound +north-2 +north +the only one of 9", run.stdout, re.MULTILINE
    )
    assert re.search(r"^urgent +bound +south-2", run.stdout, re.MULTILINE)
    assert re.search(r"^training +bound +south-3", run.stdout, re.MULTILINE)
    assert re.search(r"^whale +waiting +0/9 nodes are available: ", run.stdout, re.MULTILINE)
    assert re.search(r"^  bound on \S+ after \d+ ms", run.stdout, re.MULTILINE)
    for zone in ("east", "north", "south"):
        assert re.search(rf"^  {zone} +██████ 2$", run.stdout, re.MULTILINE)
    assert "\x1b" not in run.stdout, "no colours where there is no terminal"
    assert not list(tmp_path.glob("py-scheduler-control-plane-*"))


def test_an_interrupted_demo_cleans_up(tmp_path):
    with subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        for line in demo.stdout:
            if "simulated nodes" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=60)

    assert demo.returncode == 130, rest
    assert "everything is cleaned up" in rest
    assert not list(tmp_path.glob("py-scheduler-control-plane-*"))
