"""Three nodes in two zones, and what becomes of a pod's claims there."""

from scheduler.framework.effects import Assume
from scheduler.framework.rejection import Failure
from scheduler.model.fact import Resource
from scheduler.plugins import VolumeBinding
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import OK, UAU, answers
from tests.unit.plugins.storing import storage_class, stored, using

PLUGIN = VolumeBinding()
REACH = "node(s) didn't match PersistentVolume's node affinity"
FIND = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
ZONE = "topology.kubernetes.io/zone"
HERE = storage_class("here", provisioner="kubernetes.io/no-provisioner")
MADE = storage_class("made")
MIGRATED = {"migrated": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs,kubernetes.io/azure-disk"}
NODES = [make_node("a", zone="z1"), make_node("b", zone="z2"), make_node("c", zone="z2")]
MOUNTING = make_pod(volumes=using("data"))


def judged(*things, pod=MOUNTING, nodes=NODES):
    """Return the reasons by node; nothing where there is none."""
    found = answers(PLUGIN, pod, stored(nodes, (), things))
    assert all(code in {OK, UAU} for code, _ in found.values())
    return {name: list(reasons) for name, (_, reasons) in found.items()}


def plan_for(pod, node, *things):
    """Return what would be assumed for *pod* on *node*: volumes by claim, and claims."""
    assumed = PLUGIN.reserve(pod, node, stored(NODES, (), things))
    assert not isinstance(assumed, Failure), assumed
    assert all(isinstance(each, Assume) for each in assumed)
    bound = {
        each.item.spec.claim_ref.name: each.item.name
        for each in assumed
        if each.resource is Resource.PERSISTENT_VOLUME
    }
    made = {
        each.item.metadata.name: each.item.selected_node
        for each in assumed
        if each.resource is Resource.PERSISTENT_VOLUME_CLAIM
    }
    return bound, made
