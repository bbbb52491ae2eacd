"""Images and other small questions to a pod or node."""

import pytest

from scheduler.errors import MalformedObject
from scheduler.model.meta import differs
from scheduler.testing import make_node, make_pod


def test_images_of_all_containers_and_volumes():
    pod = make_pod(
        containers=[{"image": "app"}],
        init_containers=[{"image": "init"}],
        volumes=[{"name": "data", "image": {"reference": "models"}}, {"name": "other"}],
    )

    assert list(pod.images) == ["init", "app", "models"]


def test_an_absent_priority_is_0():
    assert make_pod().priority == 0
    assert make_pod(priority=-5).priority == -5


def test_pods_of_one_template_share_a_label_set():
    assert make_pod("a", labels="x=1, y=2").label_set == make_pod("b", labels="y=2, x=1").label_set


def test_a_new_version_alone_is_no_difference():
    old = make_pod(metadata={"resourceVersion": "1"}).metadata
    new = make_pod(metadata={"resourceVersion": "2"}).metadata
    other = make_pod(metadata={"resourceVersion": "2", "generation": 7}).metadata

    assert not differs(old, new)
    assert differs(old, other)
    assert not differs(old, old)


def test_what_a_node_offers():
    node = make_node(
        allocatable={"cpu": "1500m", "memory": "1Gi", "pods": "7", "hugepages-2Mi": "0"}
    )

    assert node.allocatable == {"cpu": 1500, "memory": 1024**3, "pods": 7, "hugepages-2Mi": 0}
    assert node.allowed_pods == 7


def test_a_node_that_cannot_be_read_names_the_field():
    with pytest.raises(MalformedObject, match=r"status.allocatable\[cpu\]"):
        make_node(status={"allocatable": {"cpu": "many"}}).check()


def test_the_controller_is_the_owner_that_says_so():
    pod = make_pod(
        metadata={
            "ownerReferences": [
                {"name": "a", "kind": "X"},
                {"name": "b", "kind": "Y", "controller": True},
            ]
        }
    )

    assert pod.metadata.controller.name == "b"
    assert make_pod().metadata.controller is None
