"""`py-scheduler explain` on a snapshot: the same decision, and everybody heard out."""

import json

import yaml

from scheduler.explain.request import ExplainRequest, explain_pod
from tests.unit.explain.explain_calls import CLUSTER, HEAD, dump, explain_known, node, pod


def test_the_decision_is_in_the_document():
    said = explain_known()

    assert said["schemaVersion"] == 1
    assert said["pod"] == {"namespace": "default", "name": "web", "priority": 0}
    assert (said["profile"], said["decision"], said["node"]) == ("py-scheduler", "Bind", "free")
    assert said["feasible"] == ["free"]
    assert said["ties"] == ["free"]
    assert said["message"] == "default/web would be bound to free"
    assert said["preemption"] is None


def test_every_plugin_judges_every_rejected_node():
    """The runner would blame `kept` on its taint alone; removing that would not help."""
    said = explain_known()["rejected"]

    assert said == {
        "full": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "resolvable": True}],
        "kept": [
            {
                "plugin": "TaintToleration",
                "reason": "node(s) had untolerated taint(s)",
                "resolvable": False,
            },
            {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "resolvable": False},
        ],
    }


def test_scores_add_up_to_totals():
    said = explain_known(node("a"), node("b"), pod("busy", at="a"), pod("web"))

    assert list(said["totals"]) == ["b", "a"]
    for name, by_plugin in said["scores"].items():
        assert said["totals"][name] == sum(each["weighted"] for each in by_plugin.values())
        for plugin, each in by_plugin.items():
            assert each["weighted"] == each["normalized"] * said["weights"][plugin]
            assert 0 <= each["normalized"] <= 100
    assert said["scores"]["a"]["TaintToleration"] == {
        "raw": 0,
        "normalized": 100,
        "weighted": 300,
    }


def test_ties_name_the_chosen_node_first():
    said = explain_known(node("a"), node("b"), node("c"), pod("web"))

    assert sorted(said["ties"]) == ["a", "b", "c"]
    assert said["ties"][0] == said["node"]


def test_a_pod_that_fits_nowhere_is_parked_with_upstreams_message():
    said = explain_known(node("a", taint="t"), pod("web"))

    assert (said["decision"], said["node"]) == ("Park", None)
    assert said["message"].startswith(
        "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    )
    assert said["scores"] == {}
    assert said["totals"] == {}


def test_a_cluster_without_nodes_is_explained():
    said = explain_known(pod("web"))

    assert (said["decision"], said["message"]) == ("Retry", "no nodes available to schedule pods")
    assert {"kind": "Node", "plugins": []} in said["missing"]


def test_a_bound_pod_is_explained_as_if_it_were_pending():
    """Otherwise it would be in its own way."""
    said = explain_known(node("a", cpu="2"), pod("web", cpu="2", at="a"))

    assert said["node"] == "a"
    assert "the pod is on a already; explained as if it were still pending" in said["notes"]


def test_nominated_pods_are_counted_on():
    """As in the cycle: room that is kept for a pod at least as important is not free."""
    rival = pod("rival", cpu="3", priority=10)
    rival["status"]["nominatedNodeName"] = "a"

    said = explain_known(node("a"), node("b"), rival, pod("web", cpu="2"))

    assert said["feasible"] == ["b"]
    assert [each["reason"] for each in said["rejected"]["a"]] == ["Insufficient cpu"]


def test_room_is_kept_for_nominees_of_other_schedulers():
    theirs = pod("theirs", cpu="4", schedulerName="default-scheduler", priority=1)
    theirs["status"]["nominatedNodeName"] = "n"

    assert explain_known(node("n"), theirs, pod("web"))["decision"] == "Park"


def test_gates_are_listed():
    said = explain_known(node("a"), pod("web", schedulingGates=[{"name": "example.com/wait"}]))

    assert [each["plugin"] for each in said["gates"]] == ["SchedulingGates"]


def test_ended_pods_take_no_room():
    ended = pod("busy", cpu="4", at="a")
    ended["status"]["phase"] = "Succeeded"

    assert explain_known(node("a"), ended, pod("web"))["feasible"] == ["a"]


def test_a_node_that_cannot_be_read_is_closed_and_named():
    broken = node("broken", cpu="a lot")

    said = explain_known(node("a"), broken, pod("web"))

    (objection,) = said["rejected"]["broken"]
    assert objection["plugin"] == ""
    assert "status.allocatable[cpu]" in objection["reason"]


def test_kinds_that_are_missing_are_named_with_their_readers():
    said = explain_known()
    assert {"kind": "Service", "plugins": ["PodTopologySpread"]} in said["missing"]

    none = {"apiVersion": "v1", "kind": "ServiceList", "items": []}
    said = explain_pod(
        ExplainRequest(name="web", snapshots=(dump(*CLUSTER), ("more", json.dumps(none))))
    )
    assert "Service" not in {each["kind"] for each in said["missing"]}


def test_several_files_and_yaml_make_one_cluster():
    first, second = (
        ("nodes", yaml.safe_dump_all([node("a"), node("b", taint="t")])),
        ("pods", yaml.safe_dump({"apiVersion": "v1", "kind": "PodList", "items": [pod("web")]})),
    )

    said = explain_pod(ExplainRequest(name="web", snapshots=(first, second)))

    assert (said["nodes"], said["node"]) == (2, "a")


def test_the_output_of_several_commands_may_follow_each_other():
    """``(kubectl get nodes -o json; kubectl get pods -A -o json) > dump.json``."""
    parts = (dump(*CLUSTER[:2])[1], json.dumps(json.loads(dump(*CLUSTER[2:])[1]), indent=2))

    said = explain_pod(ExplainRequest(name="web", snapshots=(("dump", "\n".join(parts)),)))

    assert said == explain_known()


def test_times_in_yaml_stay_text():
    text = (
        "apiVersion: v1\nkind: Node\nmetadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}\n"
    )

    said = explain_pod(
        ExplainRequest(name="web", snapshots=(("f", text), dump(pod("web", cpu="0"))))
    )

    assert said["nodes"] == 1
    assert not said["notes"]


def test_extenders_are_reported_as_not_called():
    document = f"{HEAD}extenders: [{{urlPrefix: 'http://127.0.0.1:9', filterVerb: filter}}]"

    assert "extender http://127.0.0.1:9 was not asked" in explain_known(config=document)["notes"]
