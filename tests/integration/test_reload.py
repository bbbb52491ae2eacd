"""Another configuration, while pods come and wait: by a file, as a kubelet mounts a ConfigMap."""

from __future__ import annotations

import contextlib

import pytest
import yaml

from tests.integration.extender import Service
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


def extender(world, node):
    """Return an extender that leaves one node, and binds by itself."""

    def binds(body):
        world.bind(body["PodName"], body["Node"])
        return {}

    return Service(filter=lambda _: {"NodeNames": [node]}, bind=binds)


def by_extenders(name, *urls, **fields):
    """Return a configuration that asks the extenders at *urls*."""
    verbs = {"filterVerb": "filter", "bindVerb": "bind", "nodeCacheCapable": True}
    asked = [{"urlPrefix": each, **verbs} for each in urls]
    return configuration(profiles=[profile(name)], extenders=asked, **fields)


def judged_by(service):
    """Return the pods that an extender was asked about, and those that it bound."""
    found = {"filter": [], "bind": []}
    for verb, body in tuple(service.asked):
        found[verb].append(body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"])
    return found["filter"], found["bind"]


def test_another_extender_judges_from_the_next_pod_on_and_whoever_waits(reloading, mounted):
    world, scheduler = reloading
    name = world.namespace
    for each in "abc":
        world.nodes(each, cpu="4", labels={"only": each})
    first, second = extender(world, "a"), extender(world, "b")

    def in_force(*urls):
        before = len(scheduler.lines("configuration.applied"))
        mounted.write(by_extenders(name, *urls))
        until(lambda: len(scheduler.lines("configuration.applied")) > before, f"{urls} are asked")

    def pod_for(node):
        return world.pod(scheduler=name, nodeSelector={"only": node})

    with first.serving() as one, second.serving() as other:
        in_force(one)
        world.expect_scheduled(world.pod(scheduler=name), on="a")
        waits, waits_longer = pod_for("b"), pod_for("c")
        until(lambda: {waits, waits_longer} <= set(judged_by(first)[0]), "both were refused")

        in_force(other)
        asked = len(first.asked)
        world.expect_scheduled(waits, on="b")
        world.expect_scheduled(world.pod(scheduler=name), on="b")
        until(lambda: waits_longer in judged_by(second)[0], "it was refused again")
        assert not world.node_of(waits_longer)

        in_force()
        asked_other = len(second.asked)
        world.expect_scheduled(waits_longer, on="c")
        world.expect_scheduled(pod_for("a"), on="a")
        assert (len(first.asked), len(second.asked)) == (asked, asked_other)


def test_who_was_judged_by_an_extender_is_bound_by_it_whatever_comes_meanwhile(
    control_plane, namespace, mounted
):
    """Pods wait for the rate limit with a node in hand while the extender is exchanged."""
    slow = {"clientConnection": {"qps": 10, "burst": 1}}
    world = World(control_plane, namespace)
    services = {node: extender(world, node) for node in ("a", "b")}

    def decided():
        return sum(len(judged_by(each)[0]) for each in services.values())

    def decide_about_thirty_and_ask(*urls):
        before, applied = decided(), len(scheduler.lines("configuration.applied"))
        pods = world.pods(30, scheduler=namespace)
        until(lambda: decided() >= before + 30, "all are decided about")
        mounted.write(by_extenders(namespace, *urls, **slow))
        until(lambda: len(scheduler.lines("configuration.applied")) > applied, f"{urls} are asked")
        return pods

    flags = ("--config", str(mounted.path), "--leader-elect=false")
    with services["a"].serving() as one, services["b"].serving() as other:
        mounted.write(by_extenders(namespace, one, **slow))
        with scheduler_process(control_plane, *flags) as scheduler:
            world.schedulers = (scheduler,)
            world.nodes("a", "b", "c", cpu="100")
            by_one = decide_about_thirty_and_ask(other)
            by_other = decide_about_thirty_and_ask(one)
            by_one += decide_about_thirty_and_ask()
            by_nobody = world.pods(5, scheduler=namespace)
            world.expect_all_scheduled([*by_one, *by_other, *by_nobody])
            placed = {
                node: {pod for pod in by_one + by_other if world.node_of(pod) == node}
                for node in "ab"
            }
            world.clear()

    assert placed == {"a": set(by_one), "b": set(by_other)}
    assert [sorted(each) for each in judged_by(services["a"])] == [sorted(by_one)] * 2
    assert [sorted(each) for each in judged_by(services["b"])] == [sorted(by_other)] * 2


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
def test_an_unusable_configuration_changes_nothing_and_is_reported(
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
