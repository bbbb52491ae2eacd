"""Small parts of the local control plane that need no processes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from hack.certificates import Authority
from hack.components import (
    Files,
    kube_apiserver,
    kube_controller_manager,
    kube_scheduler_configuration,
    kwok,
)
from hack.kubeconfig import (
    certificate_credentials,
    read_kubeconfig,
    token_credentials,
    write_kubeconfig,
)
from hack.nodes import node, nodes
from hack.ports import PortClaims

FILES = Files(Path("/nowhere"))


def test_a_client_certificate_names_user_and_groups():
    pair = Authority().client("jane", ["dev", "ops"])
    subject = x509.load_pem_x509_certificate(pair.certificate).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [a.value for a in groups] == ["dev", "ops"]


@pytest.mark.parametrize("kind", ["certificate", "token"])
def test_a_kubeconfig_can_be_read_back_by_its_owner_only(tmp_path, kind):
    authority = Authority()
    credentials = {
        "certificate": certificate_credentials(authority.client("jane")),
        "token": token_credentials("secret"),
    }[kind]
    path = write_kubeconfig(tmp_path / "k", "https://127.0.0.1:1", authority.pem, credentials)
    access = read_kubeconfig(path)
    assert access.url == "https://127.0.0.1:1"
    assert access.headers == ({"Authorization": "Bearer secret"} if kind == "token" else {})
    assert path.stat().st_mode & 0o077 == 0


def test_a_claimed_port_stays_claimed_while_no_server_listens():
    ours, theirs = PortClaims(), PortClaims()
    try:
        port = ours.claim()
        assert not theirs._try(port)
        ours.release()
        assert theirs._try(port)
    finally:
        ours.release()
        theirs.release()


def test_a_port_in_use_is_not_claimed():
    claims = PortClaims()
    try:
        port = claims.claim()
        claims.release()
        with socket.create_server(("127.0.0.1", port)):
            assert not claims._try(port)
    finally:
        claims.release()


def test_taints_by_condition_need_the_controller_that_removes_them():
    pair = {"-node-lifecycle-controller", "-taint-eviction-controller"}
    assert pair <= _controllers(kube_controller_manager(FILES, 1, node_lifecycle=False))
    assert not pair & _controllers(kube_controller_manager(FILES, 1, node_lifecycle=True))


def _controllers(arguments):
    flag = next(each for each in arguments if each.startswith("--controllers="))
    return set(flag.removeprefix("--controllers=").split(","))


def test_the_apiserver_is_throttled_unless_a_benchmark_says_no():
    assert not any("inflight" in argument for argument in kube_apiserver(FILES, 1, 2))
    assert any("inflight" in each for each in kube_apiserver(FILES, 1, 2, unthrottled=True))


def test_kwok_can_leave_pods_alone():
    assert any("pods.yaml" in each for each in kwok(FILES, 1, pods=True, nodes="a=b"))
    assert not any("pods.yaml" in each for each in kwok(FILES, 1, pods=False, nodes="a=b"))


def test_changes_are_laid_over_the_reference_schedulers_configuration():
    profiles = [{"schedulerName": "reference"}]
    changes = {"profiles": profiles, "clientConnection": {"qps": 50}}
    document = kube_scheduler_configuration(changes, Path("/some/kubeconfig"))
    assert document["profiles"] == profiles
    assert document["leaderElection"] == {"leaderElect": False}
    connection = {"qps": 50, "burst": 5000, "kubeconfig": "/some/kubeconfig"}
    assert document["clientConnection"] == connection
    assert changes == {"profiles": profiles, "clientConnection": {"qps": 50}}


def test_nodes_are_dealt_out_over_zones():
    described = nodes(3, zones=2, cpu="8")
    zones = [each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in described]
    assert zones == ["zone-0", "zone-1", "zone-0"]
    assert [each["metadata"]["name"] for each in described] == [f"node-0000{i}" for i in range(3)]
    assert {each["status"]["allocatable"]["cpu"] for each in described} == {"8"}


def test_a_plain_node_is_ready_from_the_start_and_kwoks_is_not():
    assert "conditions" not in node("n")["status"]
    assert node("n")["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    plain = node("n", kwok=False, unschedulable=True)
    assert plain["status"]["conditions"][0]["status"] == "True"
    assert plain["metadata"]["annotations"] == {}
    assert plain["spec"] == {"unschedulable": True}
