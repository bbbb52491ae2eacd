import json
from dataclasses import replace

import pytest

from scheduler.kube.decode import Bookmark, ObjectChanged, ObjectDecoder, Unreadable, WatchError
from scheduler.kube.watched import NODES, PODS, REPLICA_SETS, WATCHED
from scheduler.model.affinity_terms import TermKind
from scheduler.model.fact import Resource
from scheduler.model.pieces import PIECE_ENTRIES

METADATA = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}
BAD_SELECTOR = {"matchExpressions": [{"key": "app", "operator": "Sounds", "values": ["a"]}]}


def read(content, watched=PODS, kind="ADDED"):
    return ObjectDecoder(watched).event(json.dumps({"type": kind, "object": content}).encode())


def read_pod(**parts):
    """Read a pod and return it; husks included."""
    event = read({"metadata": METADATA, **parts})
    assert isinstance(event, ObjectChanged)
    return event.object


def affinity(kind, term):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {kind: {required: [term]}}}


def preferred(term):
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    return {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    }


MALFORMED_PODS = {
    "spec.containers[0].resources.requests[cpu]": {
        "containers": [{"resources": {"requests": {"cpu": "12 cores"}}}]
    },
    "spec.overhead[memory]": {"overhead": {"memory": "1 GB"}},
    "spec.priority": {"priority": "high"},
    "spec.containers": {"containers": {"name": "not a list"}},
    "spec.tolerations[0].key": {"tolerations": [{"key": 7}]},
    "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator": {
        "topologySpreadConstraints": [{"labelSelector": BAD_SELECTOR}]
    },
    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    ".labelSelector.matchExpressions[0].operator": affinity(
        "podAffinity", {"labelSelector": BAD_SELECTOR}
    ),
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    ".namespaceSelector.matchExpressions[0].operator": affinity(
        "podAntiAffinity", {"namespaceSelector": BAD_SELECTOR}
    ),
    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
    ".podAffinityTerm.labelSelector.matchExpressions[0].operator": preferred(
        {"labelSelector": BAD_SELECTOR}
    ),
}


@pytest.mark.parametrize("field", MALFORMED_PODS)
def test_a_malformed_pod_keeps_its_identity_and_node(field):
    spec = {"nodeName": "n", "schedulerName": "s", **MALFORMED_PODS[field]}
    status = {"phase": "Running", "nominatedNodeName": "m"}

    pod = read_pod(spec=spec, status=status)

    assert pod.malformed.split(": ")[0] == field
    assert (pod.uid, pod.node_name, pod.spec.scheduler_name) == ("u", "n", "s")
    assert (pod.status.phase, pod.nominated_node) == ("Running", "m")


def test_unreadable_labels_do_not_hide_a_pod():
    pod = read({"metadata": {**METADATA, "labels": {"app": 7}}, "spec": {"nodeName": "n"}}).object

    assert pod.malformed == "metadata.labels[...]: Expected `str`, got `int`"
    assert (pod.key, pod.node_name, pod.labels) == ("default/a", "n", {})


def test_a_pod_of_which_nothing_is_left_is_unreadable():
    event = read({"metadata": METADATA, "spec": {"nodeName": 7}})

    assert event == Unreadable("ADDED", ("", ""), "", "spec.nodeName: Expected `str`, got `int`")


def test_a_malformed_node_is_closed():
    event = read({"metadata": METADATA, "status": {"allocatable": {"cpu": "many"}}}, NODES)

    assert event.object.name == "a"
    assert event.object.malformed.startswith("status.allocatable[cpu]: 'many'")


def test_other_malformed_kinds_are_unreadable():
    event = read({"metadata": METADATA, "spec": {"selector": BAD_SELECTOR}}, REPLICA_SETS)

    assert (event.key, event.version) == (("default", "a"), "7")
    assert event.problem.startswith("spec.selector.matchExpressions[0].operator: ")


def test_null_is_an_absent_field():
    """Go writes null for an empty slice here and there; an image without names is a known case."""
    image = {"names": None, "sizeBytes": 5}

    node = read({"metadata": METADATA, "status": {"images": [image]}}, NODES).object
    pod = read_pod(spec={"containers": None, "volumes": [{"name": "v", "ephemeral": {"x": 1}}]})

    assert (node.malformed, node.status.images[0].names) == ("", ())
    assert (pod.malformed, pod.spec.containers, pod.spec.volumes[0].name) == ("", (), "v")


@pytest.mark.parametrize("watched", WATCHED.values(), ids=lambda watched: watched.resource)
def test_annotations_are_dropped_unless_a_plugin_needs_them(watched):
    content = {"metadata": {**METADATA, "annotations": {"long": "text"}}}

    assert read(content, replace(watched, annotations=False)).object.metadata.annotations == {}
    kept = read(content, watched.with_annotations()).object.metadata.annotations
    assert kept == {"long": "text"}


def test_every_resource_can_be_watched():
    assert set(WATCHED) == set(Resource)


def test_bookmarks_and_errors_are_no_changes():
    ending = {"k8s.io/initial-events-end": "true"}

    assert read({"metadata": {"resourceVersion": "9"}}, kind="BOOKMARK") == Bookmark("9", False)
    assert read(
        {"metadata": {"resourceVersion": "9", "annotations": ending}}, kind="BOOKMARK"
    ) == Bookmark("9", True)
    assert read({"code": 410, "message": "gone"}, kind="ERROR") == WatchError(410, "gone")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b'{"type":"ADDED"}', b'{"object":{}}'])
def test_a_broken_line_is_unreadable(line):
    event = ObjectDecoder(PODS).event(line)

    assert isinstance(event, Unreadable)
    assert event.key == ("", "")


def read_in_pieces(line, watched=PODS):
    """Read a line as a large one; return the event, and how many pieces it took."""
    reading, pieces = ObjectDecoder(watched).event_in_pieces(line), 1
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value, pieces
        pieces += 1


def line_of(content, kind="ADDED"):
    return json.dumps({"type": kind, "object": content}).encode()


@pytest.mark.parametrize(
    "line",
    [
        *(line_of({"metadata": METADATA, "spec": spec}) for spec in MALFORMED_PODS.values()),
        line_of({"metadata": METADATA | {"annotations": {"a": "b"}, "labels": None}}, "MODIFIED"),
        line_of({"metadata": {}}),
        line_of({"metadata": {"resourceVersion": "9"}}, "BOOKMARK"),
        line_of({"code": 410, "message": "compacted"}, "ERROR"),
        b"{",
        line_of({"metadata": METADATA, "deep": 1}).replace(b"1", b"[" * 9999 + b"]" * 9999),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_a_line_means_the_same_in_pieces(line, raw):
    watched = replace(PODS, raw=raw)

    found, _ = read_in_pieces(line, watched)

    assert found == ObjectDecoder(watched).event(line)


def of_terms(count, keys=3):
    terms = [
        {
            "topologyKey": f"example.com/key-{index % keys}",
            "labelSelector": {"matchLabels": {"app": f"app-{index}"}},
        }
        for index in range(count)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAntiAffinity": required}, "nodeName": "node"}


def of_expressions(count):
    exists = [{"key": f"key-{index}", "operator": "Exists"} for index in range(count)]
    return {"selector": {"matchExpressions": exists}}


@pytest.mark.parametrize(
    ("watched", "spec"), [(PODS, of_terms(5000)), (REPLICA_SETS, of_expressions(5000))]
)
def test_a_large_object_is_read_in_pieces(watched, spec):
    line = line_of({"metadata": METADATA, "spec": spec})

    found, pieces = read_in_pieces(line, watched)

    assert found == ObjectDecoder(watched).event(line)
    assert pieces >= 5000 // PIECE_ENTRIES


def test_terms_of_one_key_are_indexed_in_pieces():
    """They are one group: pieces of so many groups would be one piece."""
    found = read({"metadata": METADATA, "spec": of_terms(5000, keys=1)})
    terms = found.object.affinity_terms

    pauses = sum(1 for _ in terms.grouping())

    assert len(terms.groups[TermKind.REQUIRED_ANTI_AFFINITY]) == 1
    assert pauses >= 2 * 5000 // PIECE_ENTRIES, "terms are put together, and then indexed"


def test_a_pod_that_was_read_in_pieces_leaves_nothing_to_derive():
    found, first = read_in_pieces(line_of({"metadata": METADATA, "spec": of_terms(5000)}))

    terms = found.object.affinity_terms
    derived = dict(terms.__dict__)
    again, pieces = read_in_pieces(line_of({"metadata": METADATA, "spec": of_terms(5000)}))

    assert "groups" in derived
    assert {"placed_requests", "nonzero_requests"} <= found.object.template.demand.__dict__.keys()
    assert again.object.affinity_terms is terms
    assert terms.__dict__ == derived
    assert 3 * pieces < first
