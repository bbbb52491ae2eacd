"""Pods that do not exist yet: what an API server would fill in is filled in, and shown."""

import pytest

from scheduler.errors import ConfigurationError
from tests.unit.explain.explain_calls import CLUSTER, explain_new, new, pod


def test_a_new_pod_is_completed_and_what_was_filled_in_is_shown():
    said = explain_new(new())

    assert said["pod"] == {"namespace": "default", "name": "new", "priority": 0}
    assert said["completed"] == [
        "metadata.namespace: default",
        "spec.priority: 0 (no PriorityClass)",
        "spec.tolerations: node.kubernetes.io/not-ready:NoExecute for 300s",
        "spec.tolerations: node.kubernetes.io/unreachable:NoExecute for 300s",
    ]


def test_priority_comes_from_the_class():
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
        "preemptionPolicy": "Never",
    }
    usual = {**urgent, "metadata": {"name": "usual"}, "value": 7, "globalDefault": True}

    named = explain_new(new(priorityClassName="urgent"), *CLUSTER, urgent, usual)
    assert named["pod"]["priority"] == 1000
    assert "spec.preemptionPolicy: Never (PriorityClass urgent)" in named["completed"]
    assert explain_new(new(), *CLUSTER, urgent, usual)["pod"]["priority"] == 7
    system = explain_new(new(priorityClassName="system-node-critical"))
    assert system["pod"]["priority"] == 2_000_001_000


def test_limits_are_requests_and_host_networks_open_ports():
    document = new(hostNetwork=True)
    document["spec"]["containers"] = [
        {"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "3"}}}
    ]
    taken = pod("taken", at="free", cpu="0")
    taken["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]

    said = explain_new(document, *CLUSTER, taken)

    assert "spec.containers[0].resources.requests[cpu]: 3 (its limit)" in said["completed"]
    assert "spec.containers[0].ports[0].hostPort: 80 (hostNetwork)" in said["completed"]
    assert [each["plugin"] for each in said["rejected"]["free"]] == ["NodePorts"]
    assert "NodeResourcesFit" in {each["plugin"] for each in said["rejected"]["full"]}


def test_tolerations_that_are_there_are_left_alone():
    given = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]

    said = explain_new(new(tolerations=given))

    assert sum(line.startswith("spec.tolerations") for line in said["completed"]) == 1


def test_a_pod_of_another_scheduler_is_explained_under_the_first_profile():
    said = explain_new(new(schedulerName="default-scheduler"))

    assert said["profile"] == "py-scheduler"
    assert any("names the scheduler default-scheduler" in note for note in said["notes"])


def test_namespaces_must_agree():
    document = new()
    document["metadata"]["namespace"] = "there"

    assert explain_new(document, namespace="there")["pod"]["namespace"] == "there"
    with pytest.raises(ConfigurationError, match="the pod's namespace is there, not here"):
        explain_new(document, namespace="here")
