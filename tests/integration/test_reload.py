"""Another configuration, while pods come and wait: by a file, as a kubelet mounts a ConfigMap."""

from __future__ import annotations

import contextlib

import pytest
import yaml

from tests.integration.world import World, configuration, profile, scheduler_process, until

pytestmark = pytest.mark.integration

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


class Mounted:
    """A ConfigMap's folder: the file is a link into ``..data``, and that one is exchanged."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "config.yaml"
        self._version = 0

    def write(self, document):
        text = document if isinstance(document, str) else yaml.safe_dump(document)
        self._version += 1
        version = self.folder / f"..version-{self._version}"
        version.mkdir()
        (version / "config.yaml").write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")
        with contextlib.suppress(FileExistsError):
            self.path.symlink_to("..data/config.yaml")


@pytest.fixture
def mounted(tmp_path):
    """A folder for one ConfigMap."""
    return Mounted(tmp_path)


@pytest.fixture
def reloading(control_plane, namespace, mounted):
    """A world whose scheduler reads a mounted file; its profile is named after the namespace."""
    mounted.write(configuration(profiles=[profile(namespace)]))
    flags = ("--config", str(mounted.path), "--leader-elect=false")
    with scheduler_process(control_plane, *flags) as started:
        world = World(control_plane, namespace, started)
        yield world, started
        world.clear()


def judged(scheduler, **labels):
    return scheduler.metric("py_scheduler_configuration_reloads_total", **labels)


def test_a_changed_file_is_in_force_from_the_next_pod_on(reloading, mounted):
    world, scheduler = reloading
    name = world.namespace
    world.nodes("a", cpu="4")
    waits = world.pod(cpu="1", scheduler=f"{name}-new")
    big = world.pod(cpu="8", scheduler=name)
    world.expect_unschedulable(big, NO_ROOM)

    # Nobody asks for room any more, and another name is served beside the first.
    careless = {
        "schedulerName": name,
        "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}},
    }
    mounted.write(configuration(profiles=[careless, careless | {"schedulerName": f"{name}-new"}]))

    world.expect_scheduled(big, on="a")
    world.expect_scheduled(waits, on="a")
    said = scheduler.expect_line("configuration.applied", pods_taken=1, pods_left=0)
    assert said["profiles"] == [name, f"{name}-new"]
    fingerprint = said["fingerprint"]
    assert scheduler.metric("py_scheduler_configuration_info", fingerprint=fingerprint) == 1
    assert f"{name}-new" in scheduler.get("/configz")[1]


def test_pods_of_a_name_without_a_profile_wait_until_there_is_one_again(reloading, mounted):
    world, scheduler = reloading
    name = world.namespace
    world.nodes("a", cpu="4")
    mounted.write(configuration(profiles=[profile("another")]))
    scheduler.expect_line("configuration.applied", profiles=["another"])

    pod = world.pod(cpu="1", scheduler=name)
    world.settle()
    assert not world.node_of(pod)
    mounted.write(configuration(profiles=[profile(name)]))
    world.expect_scheduled(pod, on="a")


@pytest.mark.parametrize(
    ("document", "result", "said"),
    [
        ("nonsense", "invalid", "must hold fields"),
        (configuration(profiles=[{"schedulerName": "x", "plugin": {}}]), "invalid", "plugins?"),
        (
            configuration(clientConnection={"qps": 7, "burst": 500}),
            "needs_restart",
            "clientConnection.qps: needs a restart: 500.0 is in force and 7.0 is asked for",
        ),
        (
            configuration(leaderElection={"leaderElect": False, "resourceName": "other"}),
            "needs_restart",
            "leaderElection.resourceName: needs a restart: 'py-scheduler'",
        ),
    ],
    ids=["text", "field", "client", "lease"],
)
def test_what_cannot_be_used_changes_nothing_and_is_told(
    reloading, mounted, document, result, said
):
    world, scheduler = reloading
    world.nodes("a", cpu="4")
    mounted.write(document)

    line = scheduler.expect_line("configuration.refused", result=result)
    assert said in " ".join(line["problems"])
    assert judged(scheduler, source="file", result=result) == 1
    assert scheduler.metric("py_scheduler_configuration_last_reload_successful") == 0
    world.expect_scheduled(world.pod(scheduler=world.namespace), on="a")

    # Put right again, nothing is left of it.
    mounted.write(configuration(profiles=[profile(world.namespace)]))
    until(lambda: scheduler.metric("py_scheduler_configuration_last_reload_successful") == 1)


def test_what_new_plugins_read_is_watched_before_they_are_asked(control_plane, namespace, mounted):
    """A scheduler that had no plugin for volumes gets all of them."""
    few = {
        "schedulerName": namespace,
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [
                    {"name": name} for name in ("PrioritySort", "NodeResourcesFit", "DefaultBinder")
                ],
            }
        },
    }
    mounted.write(configuration(profiles=[few]))
    flags = ("--config", str(mounted.path))
    with scheduler_process(control_plane, *flags) as started:
        world = World(control_plane, namespace, started)
        try:
            world.nodes("a")
            world.create(
                "v1/persistentvolumeclaims",
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                        "storageClassName": "nobody-knows",
                    },
                },
            )
            assert not started.lines("watch.synced", resource="PersistentVolumeClaim")
            mounted.write(configuration(profiles=[profile(namespace)]))
            started.expect_line("configuration.applied")
            assert started.lines("watch.synced", resource="PersistentVolumeClaim")

            volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
            pod = world.pod(scheduler=namespace, volumes=[volume])
            until(
                lambda: "PersistentVolumeClaims" in world._condition(pod)[2],
                "the claim was looked at",
            )
        finally:
            world.clear()
