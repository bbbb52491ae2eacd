"""Host ports, images and other small questions to a pod or node."""

import pytest

from scheduler.errors import MalformedObject
from scheduler.model.meta import differs
from scheduler.model.pod import HostPort, ports_conflict
from scheduler.testing import make_node, make_pod


def port(number, ip="0.0.0.0", protocol="TCP"):
    return HostPort(ip=ip, protocol=protocol, port=number)


def test_host_ports_of_sidecars_and_containers():
    """Plain init containers are over before the others run; a port without a host port is none."""
    pod = make_pod(
        containers=[
            {"ports": [{"containerPort": 80}, {"hostPort": 80}]},
            {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
        ],
        init_containers=[
            {"ports": [{"hostPort": 1}]},
            {"ports": [{"hostPort": 2}], "restartPolicy": "Always"},
        ],
    )

    assert pod.host_ports == (port(2), port(80), port(53, "10.0.0.1", "UDP"))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80), port(80, protocol="UDP"), False),
        (port(80, "127.0.0.1"), port(80), True),
        (port(80, "127.0.0.1"), port(80, "127.0.0.1"), True),
        (port(80, "127.0.0.1"), port(80, "127.0.0.2"), False),
        (port(80, "::"), port(80, "127.0.0.1"), False),
    ],
)
def test_ports_conflict_either_way_round(one, other, conflict):
    assert ports_conflict(one, other) is conflict
    assert ports_conflict(other, one) is conflict


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
