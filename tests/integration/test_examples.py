"""The examples at work: found by their classes, on a real API server, with the README's pod."""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from hack.control_plane import ControlPlane
from hack.nodes import add_nodes, node
from tests.integration.world import until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SPOT = {"lifecycle": "spot"}
DRAINING = {"maintenance": "draining"}


def _shown(page, kind):
    """Return the document of *kind* that a page shows."""
    blocks = re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    )
    return next(doc for doc in map(yaml.safe_load, blocks) if doc["kind"] == kind)


def _profile():
    """Put the profiles that both examples show into one document."""
    one = _shown("examples/01-score-plugin/README.md", "KubeSchedulerConfiguration")
    other = _shown("examples/02-filter-plugin/README.md", "KubeSchedulerConfiguration")
    one["profiles"][0]["plugins"] |= other["profiles"][0]["plugins"]
    return one


def test_the_examples_decide_where_the_pod_of_the_readme_is_bound(tmp_path):
    """Spot is preferred, a draining node is left alone, and the end of draining wakes the pod."""
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(_profile()))
    folders = [ROOT / "examples" / name for name in ("01-score-plugin", "02-filter-plugin")]
    pods = "/api/v1/namespaces/default/pods"
    with ControlPlane() as plane:
        add_nodes(
            plane.admin_kubeconfig,
            [
                node("plain", kwok=False),
                node("spot", kwok=False, labels=SPOT),
                node("draining", kwok=False, labels={**SPOT, **DRAINING}),
            ],
        )
        command = [sys.executable, "-m", "scheduler", "run", "--port", "0"]
        command += ["--kubeconfig", str(plane.admin_kubeconfig)]
        command += ["--config", str(tmp_path / "profile.yaml")]
        plane.spawn(
            "py-scheduler",
            command,
            cwd=ROOT,
            environ={"PYTHONPATH": os.pathsep.join(map(str, folders))},
        )
        pod = _shown("README.md", "Pod")
        plane.request("POST", pods, pod)
        until(lambda: plane.request("GET", f"{pods}/hello")["spec"].get("nodeName") == "spot")

        plane.kubectl("label", "node", "spot", "maintenance=draining")
        plane.kubectl("cordon", "plain")
        plane.request("POST", pods, {**pod, "metadata": {"name": "later"}})

        def message():
            conditions = plane.request("GET", f"{pods}/later")["status"].get("conditions", [{}])
            return conditions[0].get("message", "")

        until(lambda: "2 node(s) were being drained" in message())
        plane.kubectl("label", "node", "spot", "maintenance-")
        until(lambda: plane.request("GET", f"{pods}/later")["spec"].get("nodeName") == "spot")
