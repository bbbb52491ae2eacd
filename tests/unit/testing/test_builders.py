"""Builders say what they are told, and refuse what would prove nothing."""

import pytest

from scheduler.model.host_ports import HostPort
from scheduler.model.objects import Service
from scheduler.model.resources import CPU, MEMORY
from scheduler.model.taints import Taint, Toleration
from scheduler.testing import make_node, make_object, make_pod


def test_amounts_are_read_as_people_write_them():
    pod = make_pod(requests="500m cpu, 8Gi, 2 example.com/gpu")

    assert pod.requests == {CPU: 500, MEMORY: 8 * 2**30, "example.com/gpu": 2}


def test_an_amount_of_nothing_is_refused():
    with pytest.raises(ValueError, match="of what are there '4'"):
        make_pod(requests="4")


def test_a_node_has_pods_a_host_name_and_a_zone():
    node = make_node("a", allocatable="8 cpu, 32Gi", zone="eu-1a")

    assert node.allocatable == {CPU: 8000, MEMORY: 32 * 2**30, "pods": 110}
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "a",
        "topology.kubernetes.io/zone": "eu-1a",
    }


@pytest.mark.parametrize(
    ("words", "key", "operator", "value", "effect"),
    [
        ("dedicated=ml:NoSchedule", "dedicated", "Equal", "ml", "NoSchedule"),
        ("dedicated:NoSchedule", "dedicated", "Exists", "", "NoSchedule"),
        ("dedicated", "dedicated", "Exists", "", ""),
        ("dedicated=:NoExecute", "dedicated", "Equal", "", "NoExecute"),
        ("*", "", "Exists", "", ""),
        ("*:NoExecute", "", "Exists", "", "NoExecute"),
    ],
)
def test_tolerations_are_read_as_taints_are_written(words, key, operator, value, effect):
    pod = make_pod(tolerations=words)

    expected = Toleration(key=key, operator=operator, value=value, effect=effect)
    assert pod.spec.tolerations == (expected,)


def test_taints_are_read_as_kubectl_reads_them():
    node = make_node(taints="dedicated=ml:NoSchedule, broken:NoExecute")

    assert node.spec.taints == (
        Taint(key="dedicated", value="ml", effect="NoSchedule"),
        Taint(key="broken", effect="NoExecute"),
    )


def test_host_ports_may_name_address_and_protocol():
    pod = make_pod(host_ports=[80, "127.0.0.1:53/UDP"])

    assert pod.host_ports == (
        HostPort(ip="0.0.0.0", protocol="TCP", port=80),
        HostPort(ip="127.0.0.1", protocol="UDP", port=53),
    )


def test_any_field_can_be_given_as_kubernetes_json_in_either_spelling():
    constraint = {"maxSkew": 2, "topologyKey": "zone"}

    snake = make_pod(topology_spread_constraints=[constraint])
    camel = make_pod(topologySpreadConstraints=[constraint])

    assert snake == camel
    assert snake.spec.topology_spread_constraints[0].max_skew == 2


def test_a_field_that_is_not_read_is_refused():
    with pytest.raises(TypeError, match="PodSpec reads no hostname"):
        make_pod(hostname="a")


def test_a_uid_follows_from_the_name_and_is_never_the_key():
    assert make_pod("a").uid == make_pod("a").uid
    assert make_pod("a").uid != make_pod("a", namespace="other").uid
    assert make_pod("a").uid != make_pod("a").key


def test_other_objects_can_be_built_too():
    service = make_object(Service, "web", spec={"selector": {"app": "web"}})

    assert service.spec.selector == {"app": "web"}
