"""Pods of one template share what they have in common, for as long as one of them lives."""

import gc
import json
from typing import Any

import msgspec
import pytest

from scheduler.kube.decode import ObjectChanged, ObjectDecoder
from scheduler.kube.watched import PODS
from scheduler.model import pod_template
from scheduler.model.meta import ObjectMeta
from scheduler.model.pod import Pod
from scheduler.model.pod_spec import PodSpec
from scheduler.testing import make_pod

SELECTOR = {"matchLabels": {"app": "web"}}
TERM = {"labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname"}
AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
NODE_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        }
    }
}
REQUESTS = {"cpu": "500m", "memory": "1Gi"}


def document(name: str = "web-1", **changed: Any) -> dict[str, Any]:
    """Return a pod as the API server sends it; *changed* replaces parts by their paths."""
    found: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": name,
            "creationTimestamp": "2026-05-04T10:00:00Z",
            "labels": {"app": "web"},
            "annotations": {"a": "b"},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
            ],
        },
        "spec": {
            "nodeName": f"node-of-{name}",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": REQUESTS}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
            "volumes": [{"name": f"kube-api-access-{name}", "projected": {}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "affinity": AFFINITY,
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-05-04T10:00:01Z",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": f"Because{name}",
                    "lastTransitionTime": "2026-05-04T10:00:01Z",
                }
            ],
        },
    }
    for path, value in changed.items():
        *outer, last = path.split("__")
        inside = found
        for step in outer:
            inside = inside[step]
        inside[last] = value
    return found


def receive(found: dict[str, Any]) -> Pod:
    """Return the pod of a watch event, as the process gets it."""
    event = ObjectDecoder(PODS).event(json.dumps({"type": "ADDED", "object": found}).encode())
    assert isinstance(event, ObjectChanged)
    return event.object


def decode(found: dict[str, Any]) -> Pod:
    """Return the pod as it is written, without sharing."""
    return msgspec.json.decode(json.dumps(found), type=Pod)


def test_pods_that_differ_in_identity_times_node_and_status_have_one_template():
    first = receive(document())
    later = document(
        "web-2",
        metadata__creationTimestamp="2026-06-01T00:00:00Z",
        metadata__generation=7,
        metadata__annotations={"kept": "by no plugin"},
        status={"phase": "Pending", "nominatedNodeName": "n", "message": "m"},
    )
    second = receive(later)
    assert first.template is second.template
    assert first.template_key == second.template_key
    assert len(first.template_key) == 16


RESIZED = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]

DIFFERENT = {
    "namespace": {"metadata__namespace": "other"},
    "labels": {"metadata__labels": {"app": "web", "more": "x"}},
    "owners": {"metadata__ownerReferences": []},
    "a priority": {"spec__priority": 7},
    "the scheduler": {"spec__schedulerName": "other"},
    "requests": {"spec__containers": [{"name": "c", "image": "i"}]},
    "init containers": {"spec__initContainers": []},
    "no toleration": {"spec__tolerations": []},
    "affinity": {"spec__affinity": NODE_AFFINITY},
    "a claim": {"spec__volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    "a gate": {"spec__schedulingGates": [{"name": "wait"}]},
    "a resize": {"status__containerStatuses": RESIZED},
    "a resize of the pod": {"status__resources": {"requests": {"cpu": "1"}}},
}


@pytest.mark.parametrize("changed", DIFFERENT.values(), ids=DIFFERENT)
def test_whatever_scheduling_reads_beside_them_makes_another_template(changed: dict[str, Any]):
    assert receive(document()).template_key != receive(document(**changed)).template_key


def test_every_field_of_the_spec_but_the_node_counts():
    plain = Pod(metadata=ObjectMeta(name="a"))
    assert set(pod_template._SPEC_FIELDS) | {"node_name", "volumes"} == set(
        PodSpec.__struct_fields__
    )
    assert plain.on("n").template is plain.template


def test_annotations_that_a_plugin_needs_count():
    assert decode(document()).template_key != receive(document()).template_key


def test_an_infeasible_resize_counts():
    pending = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    deferred = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    found = [
        receive(document(status__containerStatuses=RESIZED, status__conditions=conditions))
        for conditions in (pending, deferred, [])
    ]
    assert [pod.placed_requests["cpu"] for pod in found] == [1000, 1000, 1000]
    assert found[0].template is not found[1].template
    assert found[1].template is found[2].template


def test_pods_with_claims_of_their_own_name_have_templates_of_their_own():
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    first, second = (receive(document(name, spec__volumes=volumes)) for name in ("a", "b"))
    assert first.template_key != second.template_key
    assert [each.name for each in (*first.claims, *second.claims)] == ["a-scratch", "b-scratch"]
    assert first.spec.containers is second.spec.containers


@pytest.mark.parametrize("name", ["web-1", "web-2"])
def test_a_shared_pod_says_what_was_written(name: str):
    _ = kept = receive(document("other", status__containerStatuses=RESIZED))
    written = document(name, status__containerStatuses=RESIZED)
    found, plain = receive(written), decode(written)
    assert found.template is kept.template
    assert found.spec == msgspec.structs.replace(plain.spec, volumes=())
    assert found.status == plain.status
    assert found.metadata == msgspec.structs.replace(plain.metadata, annotations={})
    assert found.requests == plain.requests
    assert found.placed_requests == plain.placed_requests
    assert found.nonzero_requests == plain.nonzero_requests
    assert found.scored_requests == plain.scored_requests
    assert found.affinity_terms == plain.affinity_terms
    assert found.label_set == plain.label_set == frozenset({("app", "web")})
    assert found.node_name == f"node-of-{name}"


def test_pods_of_a_template_share_their_parts():
    first, second = receive(document("a")), receive(document("b"))
    assert first.spec.containers is second.spec.containers
    assert first.spec.affinity is second.spec.affinity
    assert first.labels is second.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.requests is second.requests
    assert first.affinity_terms is second.affinity_terms


def test_pods_without_a_node_share_one_spec():
    first, second = (receive(document(name, spec__nodeName="")) for name in "ab")
    assert first.spec is second.spec
    bound = first.on("n")
    assert (bound.node_name, first.node_name, second.node_name) == ("n", "", "")
    assert bound.template is first.template


def test_pods_of_different_templates_share_the_parts_that_are_equal():
    def of_daemon_set(node: str) -> Pod:
        affinity = json.loads(json.dumps(NODE_AFFINITY).replace("n1", node))
        return receive(document(node, spec__affinity=affinity))

    first, second = of_daemon_set("x"), of_daemon_set("y")
    assert first.template is not second.template
    assert first.spec.affinity != second.spec.affinity
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.requests is second.requests


def test_nothing_stays_of_pods_that_are_gone():
    gc.collect()
    before = pod_template.sizes()
    for round_ in range(3):
        pods = [
            receive(
                document(
                    f"p{number}",
                    metadata__labels={"app": f"{round_}-{number}"},
                    spec__containers=[{"name": f"c{round_}-{number}"}],
                    spec__tolerations=[{"key": f"k{round_}-{number}"}],
                )
            )
            for number in range(100)
        ]
        assert pod_template.sizes()["templates"] == before["templates"] + 100
        del pods
        assert pod_template.sizes() == before


def test_numbers_beyond_64_bits_are_told_apart():
    first, second = (make_pod(requests={"cpu": 10**number}) for number in (20, 30))
    assert first.template_key != second.template_key


def test_a_template_is_read_once():
    first = receive(document())
    first.template.check()
    assert first.template._checked
    assert receive(document("b")).template is first.template
