"""What one decision costs does not grow with the pods that run already."""

from __future__ import annotations

import pytest

from scheduler.model.selectors import Selector
from scheduler.plugins import InterPodAffinity, PodTopologySpread
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import columns_of

ZONE = "topology.kubernetes.io/zone"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}


def spread(action):
    constraint = {**WEB, "maxSkew": 1, "whenUnsatisfiable": action}
    return {"topology_spread_constraints": [constraint]}


def affinity(kind, *, required):
    terms = [WEB] if required else [{"weight": 1, "podAffinityTerm": WEB}]
    when = "required" if required else "preferred"
    return {"affinity": {kind: {f"{when}DuringSchedulingIgnoredDuringExecution": terms}}}


WISHES = {
    "hard spread": spread("DoNotSchedule"),
    "soft spread": spread("ScheduleAnyway"),
    "required affinity": affinity("podAffinity", required=True),
    "preferred affinity": affinity("podAffinity", required=False),
    "required anti-affinity": affinity("podAntiAffinity", required=True),
    "preferred anti-affinity": affinity("podAntiAffinity", required=False),
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_a_decision_puts_its_question_to_no_pod_that_was_there_before(wish, monkeypatch):
    """Every pod has labels of its own, as those of a StatefulSet have: none answers for another."""
    matched = []
    matches = Selector.matches

    def counting(self, labels):
        matched.append(labels)
        return matches(self, labels)

    nodes = [make_node(f"n{index}", zone=f"z{index % 3}") for index in range(10)]
    there = [
        make_pod(f"p{index}", node=f"n{index % 10}", labels={"app": "web", "index": str(index)})
        for index in range(500)
    ]
    columns = columns_of(nodes, there)
    plugins = [PodTopologySpread(), InterPodAffinity()]
    monkeypatch.setattr(Selector, "matches", counting)

    def decide(name):
        pod = make_pod(name, labels="app=web", **wish)
        for plugin in plugins:
            plugin.pre_filter(pod, NodeTable(columns))
            list(plugin.filter(pod, NodeTable(columns)))
            plugin.score(pod, NodeTable(columns))
        columns.add_pod(0, pod.on("n0"))

    decide("first")
    assert len(matched) >= len(there), "the column is made once"
    matched.clear()
    decide("second")
    decide("third")
    assert len(matched) < 50
