"""Plugins by users on a real API server: custom resources, wake-ups, stalls."""

from __future__ import annotations

import pytest

from hack.api import MERGE_PATCH, ApiError
from tests.integration.world import ROOT, configuration, scheduler_process, until

pytestmark = pytest.mark.integration

METRICS = "/apis/metrics.k8s.io/v1beta1/nodes"
GAUGES = "/apis/example.com/v1/gauges"

PLUGINS = '''
import time

from scheduler import Action, ClusterEvent, Requeue, per_node

GAUGES = "gauges.v1.example.com"


@per_node
class Open:
    """Nodes are closed until their gauge says that they are open."""

    name = "Open"
    needs = (GAUGES, "node.annotations")
    requeue_on = (
        Requeue(
            ClusterEvent(GAUGES, Action.ADD | Action.UPDATE),
            lambda pod, change: change.new.content["spec"]["open"],
        ),
    )

    def filter_node(self, pod, node):
        if "always-open" in node.annotations:
            return None
        gauge = node.objects.custom(GAUGES).get(node.name)
        return None if gauge and gauge.content["spec"]["open"] else "node(s) were not open"


class Stalls:
    name = "Stalls"

    def score(self, pod, nodes):
        while True:
            # For ever, in short pieces: what breaks a plugin off gets its turn between them.
            time.sleep(0.01)


class Raises:
    name = "Raises"

    def filter(self, pod, nodes):
        raise RuntimeError("no luck")
'''


def crd(plural, kind, group, version):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@pytest.fixture
def define(control_plane):
    """Define custom resources, and delete them at the end."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    defined = []

    def served(where):
        try:
            return control_plane.request("GET", where)["items"] == []
        except ApiError:
            return False

    def create(plural, kind, group, version):
        control_plane.request("POST", path, crd(plural, kind, group, version))
        defined.append(f"{plural}.{group}")
        until(lambda: served(f"/apis/{group}/{version}/{plural}"))

    yield create
    for name in defined:
        control_plane.request("DELETE", f"{path}/{name}")


@pytest.fixture
def with_plugins(world, tmp_path, monkeypatch):
    """Run a scheduler of its own whose profiles have plugins of the user's."""
    (tmp_path / "live_plugins.py").write_text(PLUGINS)
    folders = f"{tmp_path}:{ROOT / 'examples' / '03-load-aware-score'}"
    monkeypatch.setenv("PYTHONPATH", folders)

    def start(**profiles):
        document = configuration(
            profiles=[
                {
                    "schedulerName": name,
                    "plugins": {"multiPoint": {"enabled": [{"name": each} for each in plugins]}},
                }
                for name, plugins in profiles.items()
            ]
        )
        return scheduler_process(world.plane, config=document)

    return start


def test_pods_go_where_a_custom_resource_says_that_there_is_little_to_do(
    world, define, with_plugins
):
    define("nodes", "NodeMetrics", "metrics.k8s.io", "v1beta1")
    world.nodes("busy", "idle", cpu="4")
    for name, used in (("busy", "3500m"), ("idle", "12345678n")):
        body = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": name},
            "usage": {"cpu": used},
        }
        world.plane.request("POST", METRICS, body)

    with with_plugins(loaded=["load_aware:LoadAware"]):
        for _ in range(3):
            world.expect_scheduled(world.pod(cpu="100m", scheduler="loaded"), on="idle")


def test_a_custom_resource_requeues_pods_that_wait_for_it(world, define, with_plugins):
    define("gauges", "Gauge", "example.com", "v1")
    world.nodes("a")
    with with_plugins(gauged=["live_plugins:Open"]) as scheduler:
        pod = world.pod(scheduler="gauged")
        world.expect_unschedulable(pod, "0/1 nodes are available: 1 node(s) were not open.")
        gauge = {"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": "a"}}
        world.plane.request("POST", GAUGES, {**gauge, "spec": {"open": False}})
        world.settle()
        assert not world.node_of(pod)

        patch = {"spec": {"open": True}}
        world.plane.request("PATCH", f"{GAUGES}/a", patch, content_type=MERGE_PATCH)
        world.expect_scheduled(pod, on="a")
        assert scheduler.lines("watch.synced", resource="gauges.v1.example.com")


def test_annotations_are_decoded_for_plugins_that_need_them(world, define, with_plugins):
    define("gauges", "Gauge", "example.com", "v1")
    world.nodes("a")
    world.plane.kubectl("annotate", "node", "a", "always-open=yes")
    with with_plugins(gauged=["live_plugins:Open"]):
        world.expect_scheduled(world.pod(scheduler="gauged"), on="a")


def test_a_resource_that_the_cluster_lacks_stops_no_scheduling(world, with_plugins):
    world.nodes("a")
    with with_plugins(gauged=["live_plugins:Open"]) as scheduler:
        pod = world.pod(scheduler="gauged")
        world.expect_unschedulable(pod, "0/1 nodes are available: 1 node(s) were not open.")
        assert scheduler.lines("watch.refused", resource="gauges.v1.example.com")


def test_a_score_plugin_that_stalls_is_broken_off_and_switched_off(world, with_plugins):
    world.nodes("a", "b")
    with with_plugins(stalled=["live_plugins:Stalls"]) as scheduler:
        world.expect_scheduled(world.pod(scheduler="stalled"))

        (disabled,) = scheduler.lines("plugin.disabled")
        assert (disabled["profile"], disabled["plugin"]) == ("stalled", "Stalls")
        assert len(scheduler.lines("plugin.stalled", plugin="Stalls", point="Score")) == 3
        failures = scheduler.metric(
            "py_scheduler_plugin_failures_total", plugin="Stalls", extension_point="Score"
        )
        assert failures == 3
        assert scheduler.is_ready()


def test_a_filter_plugin_that_raises_stops_its_profile_and_no_other(world, with_plugins):
    world.nodes("a")
    with with_plugins(broken=["live_plugins:Raises"], sound=[]) as scheduler:
        pods = world.pods(4, scheduler="broken")
        scheduler.expect_line("profile.stopped", profile="broken", plugin="Raises")
        world.expect_scheduled(world.pod(scheduler="sound"), on="a")

        assert not any(map(world.node_of, pods))
        until(lambda: not scheduler.is_ready())
        assert "[-]profiles failed" in scheduler.get("/readyz?verbose")[1]
