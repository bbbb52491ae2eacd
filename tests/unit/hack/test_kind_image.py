"""The node image: what goes into it, before anything is built."""

from __future__ import annotations

import yaml

from hack import kind_image
from tests.e2e import on_kind, team

LISTED = """\
registry.k8s.io/kube-apiserver:v1.36.3
registry.k8s.io/kube-controller-manager:v1.36.3
registry.k8s.io/kube-scheduler:v1.36.3
registry.k8s.io/kube-proxy:v1.36.3
registry.k8s.io/coredns/coredns:v1.14.2
registry.k8s.io/pause:3.10.2
registry.k8s.io/etcd:3.6.8-0
"""
CONTAINERD = """
[plugins."io.containerd.grpc.v1.cri"]
  # use fixed sandbox image
  sandbox_image = "registry.k8s.io/pause:3.10"
"""


def test_nodes_find_what_kubernetes_runs_under_its_names():
    named = kind_image.images(LISTED, CONTAINERD)

    assert named["etcd"] == "registry.k8s.io/etcd:3.6.8-0"
    assert named["kube-proxy"] == "registry.k8s.io/kube-proxy:v1.36.3"
    assert named["pause"] == "registry.k8s.io/pause:3.10"
    assert "coredns" not in named


def test_what_scenarios_run_is_among_it():
    named = kind_image.images(LISTED, CONTAINERD)
    (pod,) = [
        each for each in yaml.safe_load_all(on_kind.PROMETHEUS.read_text()) if each["kind"] == "Pod"
    ]

    assert named["pause"] == team.IMAGE
    assert [each["image"] for each in pod["spec"]["containers"]] == [named["prometheus"]]


def test_image_of_a_binary_runs_it(tmp_path):
    command = kind_image.import_layer(tmp_path / "layer.tar", "/bin/etcd", "etcd:1")

    assert command[:2] == ["docker", "import"]
    assert 'ENTRYPOINT ["/bin/etcd"]' in command
    assert command[-2:] == [str(tmp_path / "layer.tar"), "etcd:1"]


def test_packages_are_named_once():
    assert len(set(kind_image.PACKAGES)) == len(kind_image.PACKAGES)
