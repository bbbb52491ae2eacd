"""The local control plane itself: what other integration tests take for granted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hack.admitting_kubelet import AdmittingKubelet
from hack.api import NotFoundError
from hack.binaries import KUBERNETES
from hack.control_plane import ControlPlane
from hack.kubeconfig import read_kubeconfig
from hack.nodes import add_nodes, create_nodes, node, nodes
from hack.processes import ProcessFailedError
from tests.integration.world import until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def _pod(name, *, node_name=None, cpu="1", grace=0, **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [
                {"name": "main", "image": "example", "resources": {"requests": {"cpu": cpu}}}
            ],
            "terminationGracePeriodSeconds": grace,
            # Nobody but the test decides about it.
            "schedulerName": "nobody",
            **({"nodeName": node_name} if node_name else {}),
            **spec,
        },
    }


def _bind(plane, namespace, pod, node_name):
    path = f"/api/v1/namespaces/{namespace}/pods"
    plane.request("POST", path, pod)
    name = pod["metadata"]["name"]
    target = {"kind": "Node", "name": node_name}
    plane.request("POST", f"{path}/{name}/binding", {"metadata": {"name": name}, "target": target})


def _pod_status(plane, namespace, name):
    return plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]


async def _eventually(holds: Callable[[], object]):
    await asyncio.to_thread(until, holds)


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # In a container without an init process, nobody collects what has ended.
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and ") Z " in state.read_text())


def test_two_control_planes_run_side_by_side_and_leave_nothing_behind():
    with ControlPlane(components=()) as one, ControlPlane(components=()) as another:
        for plane in (one, another):
            assert plane.request("GET", "/version")["gitVersion"] == KUBERNETES
        one.create_namespace("only-here")
        assert "only-here" in one.kubectl("get", "namespaces")
        assert "only-here" not in another.kubectl("get", "namespaces")
        processes = (*one.processes, *another.processes)
        assert [p.name for p in processes] == ["etcd", "kube-apiserver"] * 2
        # Another's administrator is a stranger here.
        with pytest.raises(RuntimeError, match=r"certificate|x509"):
            one.kubectl("get", "nodes", f"--server={one.url}", kubeconfig=another.admin_kubeconfig)
    assert not any(process.running for process in processes)
    assert not one.directory.exists()
    assert not another.directory.exists()


OWNER = """
from hack.control_plane import ControlPlane
with ControlPlane(components=()) as plane:
    print(plane.directory, *(process.pid for process in plane.processes), flush=True)
    input()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_with_its_owner(how):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as owner:
        assert owner.stdout is not None
        directory, *pids = owner.stdout.readline().decode().split()
        assert len(pids) == 2
        assert all(_alive(int(pid)) for pid in pids)
        owner.send_signal(how)
    until(lambda: not any(_alive(int(pid)) for pid in pids))
    until(lambda: not Path(directory).exists())


def test_a_component_that_cannot_start_shows_its_log():
    with (
        pytest.raises(ProcessFailedError, match=r"(?s)kube-apiserver ended.*no-such-flag") as it,
        ControlPlane(components=(), apiserver_flags=["--no-such-flag"]),
    ):
        pass
    assert "kube-apiserver.log" in str(it.value)


def test_rbac_forbids_what_was_not_granted(control_plane, namespace):
    stranger = control_plane.kubeconfig_for("stranger", ["strangers"])
    with pytest.raises(RuntimeError, match=r'User "stranger" cannot list resource "pods"'):
        control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=stranger)
    control_plane.kubectl(
        *("create", "rolebinding", "readers", "-n", namespace),
        *("--clusterrole=view", "--group=strangers"),
    )
    until(
        lambda: (
            control_plane.kubectl(
                *("auth", "can-i", "list", "pods", "-n", namespace),
                *("--as=stranger", "--as-group=strangers"),
            )
            == "yes\n"
        )
    )
    control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=stranger)


def test_a_service_account_can_log_in(control_plane, namespace):
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "default")
    said = control_plane.kubectl("auth", "whoami", kubeconfig=kubeconfig)
    assert f"system:serviceaccount:{namespace}:default" in said
    assert read_kubeconfig(kubeconfig).headers["Authorization"].startswith("Bearer ")


def test_controllers_work(control_plane, namespace, kubectl):
    kubectl("create", "deployment", "web", "--image=example", "--replicas=3", "-n", namespace)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    until(lambda: len(control_plane.request("GET", pods)["items"]) == 3)


def test_killed_apiserver_comes_back_with_its_data():
    with ControlPlane(components=()) as plane:
        plane.create_namespace("kept")
        url, first = plane.url, plane.processes[-1]
        plane.stop_apiserver(kill=True)
        assert first.returncode == -signal.SIGKILL
        with pytest.raises(OSError, match=r"refused"):
            plane.request("GET", "/readyz")
        plane.start_apiserver()
        assert plane.url == url
        assert "kept" in plane.kubectl("get", "namespaces")
        plane.restart_apiserver()
        assert "kept" in plane.kubectl("get", "namespaces")


def test_kwok_makes_nodes_ready_and_bound_pods_run():
    components = ("kube-controller-manager", "kwok", "kube-scheduler")
    with ControlPlane(components=components) as plane:
        add_nodes(plane.admin_kubeconfig, nodes(3, cpu="4", zones=3))
        for name in ("node-00000", "node-00001", "node-00002"):
            plane.kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=20s")
        listed = plane.request("GET", "/api/v1/nodes")["items"]
        assert {each["status"]["capacity"]["cpu"] for each in listed} == {"4"}
        # The node lifecycle controller has seen the heartbeats.
        until(
            lambda: (
                not any(
                    each["spec"].get("taints")
                    for each in plane.request("GET", "/api/v1/nodes")["items"]
                )
            )
        )
        _bind(plane, "default", _pod("bound"), "node-00001")
        plane.kubectl("run", "scheduled", "--image=example")
        for name in ("bound", "scheduled"):
            plane.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
        plane.kubectl("delete", "pod", "bound", "--timeout=20s")
        scheduler = plane.processes[-1]
        assert "scheduler_schedule_attempts_total" in plane.scrape(scheduler)


async def test_a_thousand_plain_nodes_are_created():
    with ControlPlane(components=(), benchmark=True) as plane:
        await create_nodes(plane.admin_kubeconfig, nodes(1000, zones=3, kwok=False))
        listed = plane.request("GET", "/api/v1/nodes")["items"]
        assert len(listed) == 1000
        assert not any(each["spec"].get("taints") for each in listed)
        assert listed[0]["status"]["conditions"][0]["status"] == "True"


async def test_kubelet_admits_in_order_and_fails_the_surplus(control_plane, namespace):
    mine = f"{namespace}-small"
    await create_nodes(control_plane.admin_kubeconfig, [node(mine, cpu="2", kwok=False)])
    try:
        async with AdmittingKubelet(control_plane.admin_kubeconfig, nodes=[mine]):
            for name in ("first", "second", "third"):
                _bind(control_plane, namespace, _pod(name), mine)
            await _eventually(
                lambda: _pod_status(control_plane, namespace, "third")["phase"] == "Failed"
            )
        phases = [
            _pod_status(control_plane, namespace, name)["phase"] for name in ("first", "second")
        ]
        assert phases == ["Running", "Running"]
        refused = _pod_status(control_plane, namespace, "third")
        assert refused["reason"] == "OutOfcpu"
        assert refused["message"] == (
            "Pod was rejected: Node didn't have enough resource: cpu, "
            "requested: 1000, used: 2000, capacity: 2000"
        )
    finally:
        control_plane.kubectl("delete", "node", mine)


async def test_kubelet_holds_resources_until_containers_have_stopped(control_plane, namespace):
    mine = f"{namespace}-slow"
    await create_nodes(control_plane.admin_kubeconfig, [node(mine, cpu="1", kwok=False)])
    pods = f"/api/v1/namespaces/{namespace}/pods"
    try:
        async with AdmittingKubelet(
            control_plane.admin_kubeconfig, nodes=[mine], shutdown_seconds=1.5
        ):
            _bind(control_plane, namespace, _pod("leaving", grace=30), mine)
            await _eventually(
                lambda: _pod_status(control_plane, namespace, "leaving")["phase"] == "Running"
            )
            began = time.monotonic()
            control_plane.request("DELETE", f"{pods}/leaving")
            _bind(control_plane, namespace, _pod("too-early"), mine)
            await _eventually(
                lambda: _pod_status(control_plane, namespace, "too-early")["phase"] == "Failed"
            )
            await _eventually(lambda: _is_gone(control_plane, f"{pods}/leaving"))
            assert time.monotonic() - began > 1.4
            _bind(control_plane, namespace, _pod("in-time"), mine)
            await _eventually(
                lambda: _pod_status(control_plane, namespace, "in-time")["phase"] == "Running"
            )
    finally:
        control_plane.kubectl("delete", "node", mine)


def test_kubelet_runs_as_a_process(control_plane, namespace):
    mine = f"{namespace}-other"
    add_nodes(control_plane.admin_kubeconfig, [node(mine, kwok=False)])
    kubelet = control_plane.start_admitting_kubelet("--node", mine, "--admission-delay", "0.5")
    try:
        _bind(control_plane, namespace, _pod("misplaced", nodeSelector={"disk": "fast"}), mine)
        assert _pod_status(control_plane, namespace, "misplaced")["phase"] == "Pending"
        until(lambda: _pod_status(control_plane, namespace, "misplaced")["phase"] == "Failed")
        assert _pod_status(control_plane, namespace, "misplaced")["reason"] == "NodeAffinity"
    finally:
        kubelet.stop()
        control_plane.kubectl("delete", "node", mine)


def _is_gone(plane, path):
    try:
        plane.request("GET", path)
    except NotFoundError:
        return True
    return False
