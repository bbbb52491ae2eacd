"""Who would be evicted, where, and which other ways there were."""

import pytest

from tests.unit.explain.explain_calls import FULL, URGENT, explain_known, node, pod, running


def budget(name, allowed, **labels):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def way(name, *victims, pdb_violations=0):
    return {
        "node": name,
        "victims": [f"default/{victim}" for victim in victims],
        "pdb_violations": pdb_violations,
    }


ROOM = [
    pytest.param(
        (node("a"), node("b"), *FULL),
        {"node": "a", "victims": ["default/a1"], "candidates": [way("a", "a1")], "message": ""},
        id="only the less important can go",
    ),
    pytest.param(
        (
            *(node("a"), running("a1", "a", priority=9), running("a2", "a")),
            *(node("b"), running("b1", "b"), running("b2", "b")),
        ),
        {
            "node": "b",
            "victims": ["default/b1", "default/b2"],
            "candidates": [way("a", "a1", "a2"), way("b", "b1", "b2")],
            "message": "",
        },
        id="the least important of the most important victims",
    ),
    pytest.param(
        (
            *(node("a"), running("a1", "a", cpu="4", labels={"app": "db"})),
            *(node("b"), running("b1", "b", cpu="4", priority=9)),
            budget("db", 0, app="db"),
        ),
        {
            "node": "b",
            "victims": ["default/b1"],
            "candidates": [way("a", "a1", pdb_violations=1), way("b", "b1")],
            "message": "",
        },
        id="budgets count before importance",
    ),
    pytest.param(
        (
            node("a", cpu="5"),
            running("a1", "a", cpu="1", priority=5),
            running("a2", "a", cpu="1", started="10:00"),
            running("a3", "a", cpu="2", started="09:00"),
            running("a4", "a", cpu="1", started="08:00"),
        ),
        {
            "node": "a",
            "victims": ["default/a4", "default/a3", "default/a2"],
            "candidates": [way("a", "a4", "a3", "a2")],
            "message": "",
        },
        id="who can stay stays, and victims are told by importance",
    ),
    pytest.param(
        (node("a", cpu="3"), node("b", taint="t"), running("a1", "a")),
        {
            "node": None,
            "victims": [],
            "candidates": [],
            "message": "no new claims to deallocate, preemption: 0/2 nodes are available: "
            "2 Preemption is not helpful for scheduling.",
        },
        id="beyond help",
    ),
    pytest.param(
        (node("b"), FULL[1]),
        {
            "node": None,
            "victims": [],
            "candidates": [],
            "message": "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod.",
        },
        id="nobody less important",
    ),
]


@pytest.mark.parametrize(("cluster", "expected"), ROOM)
def test_victims_and_their_node_are_listed(cluster, expected):
    said = explain_known(*cluster, URGENT)

    assert said["preemption"] == expected
    assert said["node"] == expected["node"]
    assert said["decision"] == ("Preempt" if expected["node"] else "Park")
    assert said["message"].endswith(expected["message"])


def test_a_pod_that_may_not_preempt_has_no_candidates():
    said = explain_known(
        node("a"), FULL[0], pod("web", cpu="4", priority=9, preemptionPolicy="Never")
    )

    assert said["preemption"]["candidates"] == []
    assert said["preemption"]["message"].endswith("not eligible due to preemptionPolicy=Never.")


def test_a_pod_that_fits_has_no_preemption():
    assert explain_known(*FULL, node("a"), node("b"), node("c"), URGENT)["preemption"] is None
