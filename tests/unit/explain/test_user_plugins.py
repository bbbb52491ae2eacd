"""Plugins by users are heard as ours are, and read what they need from the snapshot."""

import sys
from pathlib import Path

import pytest

from tests.unit.explain.explain_calls import CLUSTER, HEAD, explain_known, node, pod

EXAMPLES = Path(__file__).parents[3] / "examples"
PLUGINS = """
import numpy as np

from scheduler import Candidate, Only, Proposal, Refused, Rejection


class Evict:
    name = "Evict"

    def post_filter(self, pod, nodes, diagnosis, ask):
        victims = nodes.pods_on(nodes.row_of("full"))
        return Proposal(Candidate("full", victims), (), "made room")


class Raises:
    name = "Raises"

    def filter(self, pod, nodes):
        raise RuntimeError("no luck")


class Picky:
    name = "Picky"

    def pre_filter(self, pod, nodes):
        return Only(frozenset({"full"}))


class Stubborn:
    name = "Stubborn"

    def pre_filter(self, pod, nodes):
        return Refused("never", resolvable=False)

    def filter(self, pod, nodes):
        yield Rejection(np.ones(len(nodes), dtype=np.bool_), "said twice")


class Endless:
    name = "Endless"

    def score(self, pod, nodes):
        while True:
            pass


class Gates:
    name = "Gates"

    def pre_enqueue(self, pod):
        return "no"


class Loaded:
    name = "Loaded"
    needs = {"gauges.v1.example.com", "node.annotations"}

    def score(self, pod, nodes):
        gauges = nodes.objects.custom("gauges.v1.example.com")
        return np.array(
            [
                gauges[name].content["free"] if name in gauges
                else int(nodes.node(row).metadata.annotations.get("free", 0))
                for row, name in enumerate(nodes.names)
            ],
            dtype=np.int64,
        )
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Return a configuration that enables some of PLUGINS."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "explained_plugins.py").write_text(PLUGINS)

    def enable(*names):
        lines = "".join(f"      - name: explained_plugins:{name}\n" for name in names)
        return f"{HEAD}profiles:\n- plugins:\n    multiPoint:\n      enabled:\n{lines}"

    yield enable
    sys.modules.pop("explained_plugins", None)


def test_preemption_names_its_victims(plugins):
    document = plugins("Evict").replace(
        "    multiPoint",
        "    postFilter: {disabled: [{name: '*'}], enabled: [{name: "
        "'explained_plugins:Evict'}]}\n    multiPoint",
    )

    said = explain_known(
        *(each for each in CLUSTER if each["metadata"]["name"] != "free"), config=document
    )

    assert (said["decision"], said["node"]) == ("Preempt", "full")
    assert said["preemption"] == {
        "node": "full",
        "victims": ["default/busy"],
        "candidates": [{"node": "full", "victims": ["default/busy"], "pdb_violations": 0}],
        "message": "made room",
    }


def test_a_plugin_that_raises_is_named(plugins):
    said = explain_known(config=plugins("Raises"))

    assert said["decision"] == "Retry"
    assert said["failed"] == {"Raises": "plugin 'Raises' raised RuntimeError in Filter: no luck"}
    assert said["feasible"] == ["free"]


# pytest-timeout's alarm and the one under test are the same.
@pytest.mark.timeout(60, method="thread")
def test_a_plugin_that_never_returns_is_interrupted(plugins):
    said = explain_known(config=plugins("Endless"))

    assert (said["decision"], said["node"]) == ("Bind", "free")
    assert said["failed"] == {
        "Endless": "plugin 'Endless' stalled: it gave no answer in Score for 1s"
    }


def test_a_gate_that_answers_in_the_wrong_shape_is_named(plugins):
    said = explain_known(config=plugins("Gates"))

    assert said["gates"] == []
    assert said["failed"] == {"Gates": "plugin 'Gates' answered pre_enqueue with 'no'"}


def test_pre_filters_give_reasons_too(plugins):
    said = explain_known(config=plugins("Picky", "Stubborn"))

    by_node = {
        name: {each["plugin"]: each for each in each_said}
        for name, each_said in said["rejected"].items()
    }
    assert by_node["free"]["Picky"]["reason"] == "node(s) didn't satisfy plugin(s) [Picky]"
    assert "Picky" not in by_node["full"]
    assert {each["Stubborn"]["reason"] for each in by_node.values()} == {"never"}


def test_custom_resources_and_annotations_are_read_from_the_snapshot(plugins):
    gauge = {
        "apiVersion": "example.com/v1",
        "kind": "Gauge",
        "metadata": {"name": "a"},
        "free": 70,
    }
    annotated = node("b")
    annotated["metadata"]["annotations"] = {"free": "20"}

    said = explain_known(node("a"), annotated, gauge, pod("web"), config=plugins("Loaded"))
    assert said["scores"]["a"]["Loaded"]["raw"] == 70
    assert said["scores"]["b"]["Loaded"]["raw"] == 20

    without = explain_known(node("a"), pod("web"), config=plugins("Loaded"))
    assert {"kind": "gauges.v1.example.com", "plugins": ["Loaded"]} in without["missing"]


def test_resources_with_an_unusual_plural_are_found(tmp_path, monkeypatch):
    """As NodeMetrics, which metrics-server serves as `nodes`."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "03-load-aware-score"))
    document = (
        f"{HEAD}profiles:\n- plugins: {{score: {{enabled: [{{name: 'load_aware:LoadAware'}}]}}}}"
    )
    metrics = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": "a"},
        "usage": {"cpu": "1"},
    }

    said = explain_known(node("a"), node("b"), metrics, pod("web"), config=document)

    assert said["scores"]["a"]["LoadAware"]["raw"] == 75
    assert said["scores"]["b"]["LoadAware"]["raw"] == 50
    sys.modules.pop("load_aware")
