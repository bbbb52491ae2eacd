"""The benchmark of restarts: its objects are copied as bytes, its table is read from histograms."""

import pytest

from benchmarks.memory import TEMPLATES
from benchmarks.restart import (
    copied_nodes,
    copied_pods,
    node_document,
    node_name,
    pod_document,
)
from benchmarks.stored_copies import Stored

UID = "00000000-1111-2222-3333-444444444444"


def test_a_copy_has_the_length_of_its_original():
    original = Stored(b"/registry/pods/a/p-1", b"k8s\0 p-1 on n-1")

    copy = original.copy({b"p-1": b"p-2", b"n-1": b"n-7"})

    assert copy == Stored(b"/registry/pods/a/p-2", b"k8s\0 p-2 on n-7")
    with pytest.raises(ValueError, match="length"):
        original.copy({b"p-1": b"p-10"})
    with pytest.raises(ValueError, match="is not in"):
        original.copy({b"p-3": b"p-4"})


def test_the_copies_are_all_other_pods_of_a_template_each_on_its_node():
    nodes, pods, number = 7, 3 * TEMPLATES, 5
    document = pod_document(number, nodes)
    name, node = document["metadata"]["name"], document["spec"]["nodeName"]
    stored = Stored(f"/registry/pods/team-5/{name}".encode(), f"{name} {node} {UID}".encode())

    copies = list(copied_pods(stored, number, UID, nodes, pods))

    expected = [pod_document(other, nodes) for other in (5 + TEMPLATES, 5 + 2 * TEMPLATES)]
    assert [copy.value.decode().split()[:2] for copy in copies] == [
        [each["metadata"]["name"], each["spec"]["nodeName"]] for each in expected
    ]
    assert [copy.key.decode().rpartition("/")[2] for copy in copies] == [
        each["metadata"]["name"] for each in expected
    ]
    assert len({copy.value.split()[2] for copy in copies} | {UID.encode()}) == 3


def test_the_originals_and_copies_of_nodes_are_all_nodes():
    names = []
    for number in range(6):
        name = node_document(number)["metadata"]["name"]
        stored = Stored(f"/registry/minions/{name}".encode(), f"{name} {UID}".encode())
        names += [
            name,
            *(each.value[:11].decode() for each in copied_nodes(stored, number, UID, 20)),
        ]

    assert sorted(names) == [node_name(number) for number in range(20)]
