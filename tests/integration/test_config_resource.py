"""The configuration as an object of the cluster, under the chart's account and nothing more."""

from __future__ import annotations

import contextlib

import pytest
import yaml

from hack.api import MERGE_PATCH, ApiError
from hack.control_plane import ControlPlane
from hack.manifests import objects, template
from tests.integration.world import (
    RESOURCE,
    SHORT_LEASE,
    World,
    configuration,
    install_resource,
    profile,
    scheduler_process,
    until,
)

pytestmark = pytest.mark.integration

PATH = "/apis/py-scheduler.dev/v1alpha1/schedulerconfigurations"
ACCOUNT = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
NOT_LIVE = ("leaderElection", "clientConnection")


class Configured:
    """One SchedulerConfiguration, what is expected of it, and schedulers that follow it."""

    def __init__(self, plane, name, kubeconfig):
        self.plane = plane
        self.name = name
        self.kubeconfig = kubeconfig

    def document(self, *profiles, **fields):
        """Return a configuration without what needs a restart."""
        whole = configuration(profiles=list(profiles) or [profile(self.name)], **fields)
        return {key: value for key, value in whole.items() if key not in NOT_LIVE or key in fields}

    def create(self, *profiles, **fields):
        body = {
            "apiVersion": "py-scheduler.dev/v1alpha1",
            "kind": "SchedulerConfiguration",
            "metadata": {"name": self.name},
            "spec": {"configuration": self.document(*profiles, **fields)},
        }
        return self.plane.request("POST", PATH, body)["metadata"]["generation"]

    def replace(self, document):
        """Put another document into the object, whole, and return its generation."""
        found = self.read()
        found["spec"]["configuration"] = document
        return self.plane.request("PUT", f"{PATH}/{self.name}", found)["metadata"]["generation"]

    def read(self):
        return self.plane.request("GET", f"{PATH}/{self.name}")

    def delete(self):
        self.plane.request("DELETE", f"{PATH}/{self.name}")

    def expect(self, generation, valid, active, reason, said=""):
        """Wait until the status has considered *generation*, and check what it says."""

        def considered():
            status = self.read().get("status", {})
            return status if status.get("observedGeneration") == generation else None

        status = until(considered, f"generation {generation} was considered")
        found = {each["type"]: each for each in status["conditions"]}
        assert found["Valid"]["status"] == valid, status
        assert found["Active"]["status"] == active, status
        assert found["Active"]["reason"] == reason, status
        assert said in found["Active"]["message"], status
        assert {each["observedGeneration"] for each in found.values()} == {generation}
        return status

    @contextlib.contextmanager
    def scheduler(self, *, ready=True, **election):
        """Run a scheduler that follows the object; its file tells what needs a restart."""
        static = {"clientConnection": {"qps": 500, "burst": 500}}
        document = {
            **HEAD,
            "leaderElection": election or {"leaderElect": False},
            **static,
        }
        flags = ["--config-resource", self.name]
        with scheduler_process(
            self.plane, *flags, kubeconfig=self.kubeconfig, config=document, ready=ready
        ) as started:
            yield started
            assert not started.lines("configuration_watch.failed"), started.log
            if started.process.running:
                assert started.metric("rest_client_requests_total", code="403") == 0


@pytest.fixture
def configured(control_plane, namespace, resource):
    """An object that does not exist yet, and the account that the chart makes for it."""
    flags = ["--set", f"configResource.name={namespace}", "--set", f"fullnameOverride={namespace}"]
    found = objects(template("--no-hooks", *flags, release=namespace, namespace=namespace))
    text = yaml.safe_dump_all([each for each in found if each["kind"] in ACCOUNT])
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, namespace)
    yield Configured(control_plane, namespace, kubeconfig)
    with contextlib.suppress(ApiError):
        control_plane.request("DELETE", f"{PATH}/{namespace}")
    control_plane.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


@pytest.fixture
def following(control_plane, configured):
    """A scheduler that follows an object, which serves its name already."""
    first = configured.create()
    with configured.scheduler() as started:
        configured.expect(first, "True", "True", "Applied")
        world = World(control_plane, configured.name, started)
        yield world, started
        world.clear()


def events(plane, name):
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    return [
        e["reason"] for e in plane.request("GET", path)["items"] if e["regarding"]["name"] == name
    ]


def test_no_pod_is_scheduled_before_there_is_an_object(control_plane, configured):
    with configured.scheduler(ready=False) as started:
        world = World(control_plane, configured.name, started)
        try:
            until(lambda: "configuration" in answer(started, "/readyz?verbose")[1])
            until(lambda: started.lines("watch.synced", resource="Node"))
            status, said = answer(started, "/readyz/configuration")
            assert (status, "does not exist yet" in said) == (500, True)
            pod = world.pod(scheduler=configured.name)
            world.plane.request("POST", "/api/v1/nodes", plain_node("a"))

            broken = configured.create({"schedulerName": configured.name, "plugin": {}})
            configured.expect(broken, "False", "False", "Invalid", "profiles[0].plugin: unknown")
            assert "no pod is scheduled" in str(configured.read()["status"])
            assert not world.node_of(pod)

            good = configured.replace(configured.document())
            status = configured.expect(good, "True", "True", "Applied")
            assert status["profiles"] == [configured.name]
            assert status["activeGeneration"] == good
            started.wait_until_ready()
            world.expect_scheduled(pod, on="a")
        finally:
            world.clear()


def answer(scheduler, path):
    with contextlib.suppress(OSError):
        return scheduler.get(path)
    return 0, ""


def plain_node(name):
    return {
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_a_change_is_in_force_and_the_status_says_so(following, configured):
    world, scheduler = following
    world.nodes("a", cpu="4")
    waits = world.pod(scheduler=f"{configured.name}-new")

    second = configured.replace(
        configured.document(profile(configured.name), profile(f"{configured.name}-new"))
    )
    status = configured.expect(second, "True", "True", "Applied", f"{configured.name}-new")
    world.expect_scheduled(waits, on="a")
    assert status["profiles"] == [configured.name, f"{configured.name}-new"]
    fingerprint = status["fingerprint"]
    assert scheduler.metric("py_scheduler_configuration_info", fingerprint=fingerprint) == 1
    shown = world.plane.kubectl("get", "schedconf", configured.name, "--no-headers").split()
    assert shown[1:4] == ["True", "True", "Applied"]

    third = configured.replace(configured.document(podMaxBackoffSeconds=0))
    status = configured.expect(third, "False", "False", "Invalid", "podMaxBackoffSeconds: must be")
    assert f"generation {second} stays in force" in str(status)
    assert status["activeGeneration"] == second
    assert scheduler.metric("py_scheduler_configuration_last_reload_successful") == 0
    world.expect_scheduled(world.pod(scheduler=f"{configured.name}-new"), on="a")

    fourth = configured.replace(configured.document(clientConnection={"qps": 3}))
    said = "clientConnection.qps: needs a restart: 500.0 is in force"
    configured.expect(fourth, "False", "False", "NeedsRestart", said)

    # What was in force all the while is so again, without anything being exchanged.
    fifth = configured.replace(
        configured.document(profile(configured.name), profile(f"{configured.name}-new"))
    )
    assert configured.expect(fifth, "True", "True", "Applied")["activeGeneration"] == fifth
    # The last one says what the second said, and is counted there.
    told = until(lambda: len(found := events(world.plane, configured.name)) >= 4 and found)
    assert sorted(told) == ["ConfigurationApplied"] * 2 + ["ConfigurationRefused"] * 2
    # Handlers of events alone: whoever watched left no mark on the object.
    metadata = configured.read()["metadata"]
    assert "finalizers" not in metadata
    assert "annotations" not in metadata


def test_a_deleted_object_leaves_its_last_configuration_in_force(following, configured):
    world, scheduler = following
    world.nodes("a", cpu="4")

    generation = configured.replace(configured.document(podMaxBackoffSeconds=0))
    configured.expect(generation, "False", "False", "Invalid")
    good = "py_scheduler_configuration_last_reload_successful"
    assert scheduler.metric(good) == 0
    configured.delete()
    scheduler.expect_line("configuration.deleted")
    assert scheduler.metric(good) == 1
    world.expect_scheduled(world.pod(scheduler=configured.name), on="a")
    assert scheduler.is_ready()

    first = configured.create(profile(configured.name), profile("another"))
    status = configured.expect(first, "True", "True", "Applied")
    assert status["profiles"] == [configured.name, "another"]


def test_a_status_that_another_client_wrote_is_corrected(following, configured):
    configured.plane.request(
        "PATCH",
        f"{PATH}/{configured.name}/status",
        {"status": {"conditions": [], "observedGeneration": 99}},
        content_type=MERGE_PATCH,
    )

    configured.expect(1, "True", "True", "Applied")


PLUGIN = """
class Reads:
    name = "Reads"
    needs = ("leases.v1.coordination.k8s.io",)
    requeue_on = ()

    def score(self, pod, nodes):
        return nodes.allowed_pods * 0
"""


def test_a_resource_that_a_new_plugin_may_not_read_is_reported_and_awaited(
    control_plane, configured, tmp_path, monkeypatch
):
    (tmp_path / "reads_leases.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    name = configured.name
    first = configured.create()
    with configured.scheduler() as started:
        configured.expect(first, "True", "True", "Applied")
        plugins = {"score": {"enabled": [{"name": "reads_leases:Reads"}]}}
        second = configured.replace(
            configured.document({"schedulerName": name, "plugins": plugins})
        )

        said = "may not list,watch leases.coordination.k8s.io. Read by Reads."
        configured.expect(second, "True", "False", "Forbidden", said)
        assert not started.lines("watch.refused")

        api = "/apis/rbac.authorization.k8s.io/v1"
        role = control_plane.request("GET", f"{api}/clusterroles/{name}")
        role["rules"].append(
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["list", "watch"],
            }
        )
        control_plane.request("PUT", f"{api}/clusterroles/{name}", role)
        until(
            lambda: configured.read()["status"].get("activeGeneration") == second,
            "the permission is seen",
        )
        configured.expect(second, "True", "True", "Applied")


def written_by(scheduler):
    """Return how many statuses it wrote; where there are no pods it patches nothing else."""
    return scheduler.metric("rest_client_requests_total", method="PATCH", code="200")


def test_the_leader_alone_writes_and_then_its_successor(configured):
    own = {"resourceName": configured.name, "resourceNamespace": configured.name}
    election = {**SHORT_LEASE, **own}
    first = configured.create()
    with configured.scheduler(**election) as leader:
        leader.expect_line("lease.acquired")
        configured.expect(first, "True", "True", "Applied")
        with configured.scheduler(**election) as standby:
            second = configured.replace(configured.document(podMaxBackoffSeconds=0))
            configured.expect(second, "False", "False", "Invalid")
            # Both heard of it, and one of them wrote.
            standby.expect_line("configuration.refused")
            assert written_by(leader) >= 2
            assert written_by(standby) == 0

            assert leader.stop() == 0
            standby.expect_line("lease.acquired")
            third = configured.replace(configured.document(podMaxBackoffSeconds=5))
            configured.expect(third, "True", "True", "Applied")
            assert written_by(standby) >= 1


def test_neither_a_restarted_api_server_nor_a_resource_that_was_away_ends_the_watch():
    """On a control plane of its own, since others need theirs."""
    with ControlPlane() as plane:
        name = "main"
        plane.create_namespace(name)
        configured = Configured(plane, name, plane.admin_kubeconfig)
        # The resource comes later than the scheduler.
        document = {**HEAD, "leaderElection": {"leaderElect": False}}
        flags = ["--config-resource", name]
        with scheduler_process(plane, *flags, config=document, ready=False) as started:
            until(lambda: "configuration" in answer(started, "/readyz?verbose")[1])
            install_resource(plane)
            configured.expect(configured.create(), "True", "True", "Applied")
            started.wait_until_ready()

            plane.restart_apiserver(kill=True)
            second = configured.replace(configured.document(podMaxBackoffSeconds=0))
            configured.expect(second, "False", "False", "Invalid")

            # Its end takes the object with it, and is no end of scheduling.
            plane.kubectl("delete", RESOURCE)
            started.expect_line("configuration.deleted")
            World(plane, name, started).nodes("a")
            pod = World(plane, name, started).pod(scheduler=name)
            World(plane, name, started).expect_scheduled(pod, on="a")
            # The API server ends the watch a second after the resource, and knows it no more.
            failed = started.expect_line("configuration_watch.failed")
            assert "404" in failed["error"]
            install_resource(plane)
            configured.expect(configured.create(profile("other")), "True", "True", "Applied")
            assert started.stop() == 0
