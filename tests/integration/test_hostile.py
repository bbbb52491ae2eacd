"""Hostile objects as a real API server takes them, and the tool that measures what they cost.

``make hostile`` measures all of them in full size, beside kube-scheduler.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hack.hostile.inside import path_of
from hack.hostile.kind import NAMESPACE, Where
from hack.hostile.kinds import KINDS

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def test_an_api_server_takes_every_kind(control_plane):
    """A dry run validates as a creation does: whatever is measured can exist."""
    control_plane.create_namespace(NAMESPACE)
    for kind in KINDS:
        (document,) = [next(iter(kind.objects(1, 4000)))]
        if kind.where is Where.BOUND:
            document["spec"]["nodeName"] = "some-node"
        control_plane.request(
            "POST", f"{path_of(document).rpartition('/')[0]}?dryRun=All", document
        )


@pytest.mark.timeout(600)
def test_both_schedulers_are_measured_beside_hostile_objects(tmp_path):
    results = tmp_path / "results.json"
    small = ["--nodes", "20", "--objects", "2", "--kilobytes", "20", "--probes", "3"]
    command = [sys.executable, "-m", "hack.hostile", "--parts", "live", *small]
    command += ["--only", "tolerations", "--minutes", "0.1", "--json", str(results)]

    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert results.exists(), run.stdout + run.stderr
    *kinds, churn = json.loads(results.read_text())["live"]
    assert [each["kind"] for each in kinds] == ["pending: tolerations", "bound: tolerations"]
    for name in ("py-scheduler", "default-scheduler"):
        for each in kinds:
            assert each[name]["plain"] > 0
            assert each[name]["beside"] > 0
            assert len(each[name]["memory"]) == 3
        assert kinds[0][name]["bound"] == 2
    assert churn["py-scheduler"][-1][0] > 0
