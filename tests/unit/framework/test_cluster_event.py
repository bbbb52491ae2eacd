"""What changed, in upstream's words (types_test.go TestCloudEvent_Match, events_test.go)."""

import msgspec
import pytest

from scheduler.framework.cluster_event import (
    ANY,
    ASSIGNED_POD,
    NODE,
    POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    node_changes,
    pod_changes,
    scaled_down,
)
from scheduler.testing import make_node, make_pod

E = ClusterEvent
PVC, CSI = "PersistentVolumeClaim", "storage.k8s.io/CSINode"


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        (E(ANY, Action.ALL), E(PVC, Action.ADD), True),
        (E(ANY, Action.ALL), UNSCHEDULABLE_TIMEOUT, True),
        (E(ANY, Action.ADD), E(PVC, Action.ADD), True),
        (E(ANY, Action.ADD), E(PVC, Action.DELETE), False),
        (E(NODE, Action.ALL), UNSCHEDULABLE_TIMEOUT, False),
        (E(NODE, Action.ADD), E(NODE, Action.ADD), True),
        (E(NODE, Action.ADD), E(PVC, Action.ADD), False),
        (E(NODE, Action.UPDATE), E(NODE, Action.UPDATE_NODE_LABEL), True),
        (E(NODE, Action.UPDATE_NODE_LABEL), E(NODE, Action.UPDATE), False),
        (E(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), E(NODE, Action.UPDATE_NODE_TAINT), True),
        (E(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), E(NODE, Action.UPDATE_NODE_LABEL), False),
        (E(POD, Action.ADD), E(ASSIGNED_POD, Action.ADD), True),
        (E(POD, Action.ADD), E(UNSCHEDULABLE_POD, Action.ADD), True),
        (E(POD, Action.UPDATE), E(UNSCHEDULABLE_POD, Action.UPDATE), True),
        (E(POD, Action.UPDATE_POD_LABEL), E(UNSCHEDULABLE_POD, Action.UPDATE), False),
        (E(ASSIGNED_POD, Action.ADD), E(UNSCHEDULABLE_POD, Action.ADD), False),
        (E(ASSIGNED_POD, Action.ADD), E(ASSIGNED_POD, Action.ADD), True),
        (E(CSI, Action.ALL), E(CSI, Action.UPDATE), True),
    ],
)
def test_which_registrations_match_which_events(registered, incoming, matches):
    assert registered.covers(incoming) is matches


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (E(ASSIGNED_POD, Action.DELETE), "AssignedPodDelete"),
        (E(NODE, Action.UPDATE_NODE_LABEL), "NodeUpdateNodeLabel"),
        (E(CSI, Action.ADD), "storage.k8s.io/CSINodeAdd"),
        (E(UNSCHEDULABLE_POD, Action.UPDATE), "UnschedulablePodUpdate"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
    ],
)
def test_labels_are_upstreams(event, label):
    assert event.label == label


def node(**more):
    return make_node("n", **more)


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (node(), node(), []),
        (node(), node(unschedulable=True), []),
        (node(unschedulable=True), node(), ["UpdateNodeTaint"]),
        (node(allocatable="1 cpu"), node(allocatable="2 cpu"), ["UpdateNodeAllocatable"]),
        (node(allocatable={"cpu": "1"}), node(allocatable={"cpu": "1000m"}), []),
        (node(), node(labels="a=b"), ["UpdateNodeLabel"]),
        (node(), node(taints="k=v:NoSchedule"), ["UpdateNodeTaint"]),
        (
            node(taints="k=v:NoSchedule, l=v:NoSchedule"),
            node(taints="l=v:NoSchedule, k=v:NoSchedule"),
            ["UpdateNodeTaint"],
        ),
        (node(conditions="Ready=True"), node(conditions="Ready=False"), ["UpdateNodeCondition"]),
        (
            node(status={"conditions": [{"type": "Ready", "status": "True", "reason": "A"}]}),
            node(status={"conditions": [{"type": "Ready", "status": "True", "reason": "B"}]}),
            [],
        ),
        (node(), node(metadata={"annotations": {"a": "b"}}), ["UpdateNodeAnnotation"]),
        (node(), node(status={"declaredFeatures": ["F"]}), ["UpdateNodeDeclaredFeature"]),
        (node(), node(images={"i": 1}), []),
        (
            node(unschedulable=True),
            node(allocatable="1 cpu", labels="a=b", taints="k:NoExecute", conditions="Ready=True"),
            [
                "UpdateNodeTaint",
                "UpdateNodeAllocatable",
                "UpdateNodeLabel",
                "UpdateNodeTaint",
                "UpdateNodeCondition",
            ],
        ),
    ],
)
def test_changes_of_a_node_in_upstreams_order(old, new, labels):
    """A heartbeat, a cordon, images and reasons of conditions are no changes."""
    assert [event.label for event in node_changes(old, new)] == [f"Node{each}" for each in labels]


def test_a_node_that_can_be_read_again_has_grown():
    good = node()
    bad = msgspec.structs.replace(good, malformed="status.allocatable[cpu]: what?")

    assert [each.label for each in node_changes(bad, good)] == ["NodeUpdateNodeAllocatable"]


def pod(**more):
    return make_pod("p", **more)


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (pod(), pod(), ["Update"]),
        (pod(), pod(nominated="n"), ["Update"]),
        (pod(), pod(labels="a=b"), ["UpdatePodLabel"]),
        (pod(requests="2 cpu"), pod(requests="1 cpu"), ["UpdatePodScaleDown"]),
        (pod(requests="2 cpu"), pod(), ["UpdatePodScaleDown"]),
        (pod(requests="1 cpu"), pod(requests="2 cpu"), ["Update"]),
        (pod(requests="1 cpu, 1Gi"), pod(requests="2 cpu, 512Mi"), ["UpdatePodScaleDown"]),
        (pod(gates=["a", "b"]), pod(gates=["a"]), ["Update"]),
        (pod(gates=["a"]), pod(), ["UpdatePodSchedulingGatesEliminated"]),
        (pod(), pod(tolerations="k:NoSchedule"), ["UpdatePodToleration"]),
        (pod(tolerations="k:NoSchedule"), pod(tolerations="l:NoSchedule"), ["Update"]),
        (
            pod(requests="2 cpu", gates=["a"]),
            pod(requests="1 cpu", labels="a=b", tolerations="k:NoSchedule"),
            [
                "UpdatePodLabel",
                "UpdatePodScaleDown",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
            ],
        ),
    ],
)
@pytest.mark.parametrize("node", ["", "n"])
def test_changes_of_a_pod_in_upstreams_order(old, new, labels, node):
    found = pod_changes(old, new.on(node) if node else new)

    resource = ASSIGNED_POD if node else UNSCHEDULABLE_POD
    assert [event.label for event in found] == [resource + each for each in labels]


def test_a_kubelet_that_shrank_a_container_made_room():
    def resized(actual):
        return pod(
            requests="1 cpu",
            node="n",
            status={
                "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": actual}}}]
            },
        )

    assert scaled_down(resized("2"), resized("1"))
    assert not scaled_down(resized("1"), resized("2"))


def test_of_what_cannot_be_read_nobody_says_that_it_shrank():
    bad = msgspec.structs.replace(pod(requests="2 cpu"), malformed="x")

    assert not scaled_down(bad, pod())
    assert [each.label for each in pod_changes(bad, pod())] == ["UnschedulablePodUpdate"]
