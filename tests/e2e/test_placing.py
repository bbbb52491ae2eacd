"""Where pods go."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import CONTROL_PLANE, HOST, ZONE, until

pytestmark = pytest.mark.integration

TOLERATED = {"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}


def among(key, *values, operator="In"):
    """Return a node affinity that is required."""
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def beside(part, over, *, kind="podAffinity"):
    """Return an affinity, or anti-affinity, to the pods of *part*."""
    term = {"topologyKey": over, "labelSelector": {"matchLabels": {"part": part}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_deployment_gets_all_its_replicas(team):
    web = team.deployment("web", 6)
    pods = until(lambda: len(found := team.pods_of(web)) == 6 and found, "there are six pods")

    nodes = team.expect_scheduled(*pods)
    assert set(nodes) == set(team.workers), "nodes are used evenly"
    until(lambda: team.events(pods[0], "Scheduled"), "it is told")
    (told,) = team.events(pods[0], "Scheduled")
    assert told["reportingController"] == "py-scheduler"


def test_node_selector_and_affinity_are_obeyed(team):
    east = {name for name, zone in team.workers.items() if zone == "east"}
    west = set(team.workers) - east

    team.expect_scheduled(team.pod(nodeSelector={ZONE: "east"}), on=east)
    team.expect_scheduled(team.pod(affinity=among(ZONE, "west")), on=west)
    team.expect_scheduled(team.pod(affinity=among(ZONE, "west", operator="NotIn")), on=east)
    nowhere = team.pod(nodeSelector={ZONE: "north"})
    team.expect_pending(nowhere, "didn't match Pod's node affinity/selector")


def test_tainted_node_takes_only_pods_that_tolerate_it(team):
    selector = {CONTROL_PLANE: ""}
    shy = team.pod(seats=0, nodeSelector=selector)
    team.expect_pending(shy, "1 node(s) had untolerated taint(s)")

    bold = team.pod(seats=0, nodeSelector=selector, tolerations=[TOLERATED])
    (found,) = team.expect_scheduled(bold)
    assert found not in team.workers


def test_pods_are_spread_over_zones(team):
    """Of three workers two are in one zone, so spreading over zones is not spreading over nodes."""
    web = [team.pod(f"web-{number}", spread_over=ZONE) for number in range(6)]

    team.expect_skew(web, over=ZONE)


def test_spreading_ranks_before_free_capacity(team):
    """The third seat in the west stays empty while the east has none."""
    east = [name for name, zone in team.workers.items() if zone == "east"]
    team.fill(*east)

    web = [team.pod("web-1", spread_over=ZONE), team.pod("web-2", spread_over=ZONE)]
    placed = until(lambda: [each for each in web if team.node_of(each)], "one is placed")
    (waiting,) = set(web) - set(placed)
    team.expect_pending(waiting, "2 node(s) didn't match pod topology spread constraints")


def test_pods_keep_away_from_their_like(team):
    apart = beside("db", HOST, kind="podAntiAffinity")
    db = [team.pod(f"db-{number}", affinity=apart) for number in range(3)]

    assert set(team.expect_scheduled(*db)) == set(team.workers)
    fourth = team.pod("db-4", affinity=apart)
    team.expect_pending(fourth, "3 node(s) didn't match pod anti-affinity rules")


def test_pods_go_where_those_are_that_they_need(team):
    cache = team.pod("cache-1", nodeSelector={ZONE: "east"})
    (node,) = team.expect_scheduled(cache)

    near = [team.pod(affinity=beside("cache", HOST)) for _ in range(2)]
    team.expect_scheduled(*near, on=node)


def test_volume_decides_where_its_pod_is_bound(team):
    waiting = team.storage_class()
    chosen = list(team.workers)[1]
    team.volume(waiting, on=chosen)
    data = team.claim("data", waiting)

    team.expect_scheduled(team.pod(mounting=data), on=chosen)
    until(lambda: team.claim_of(data)["status"]["phase"] == "Bound", "the claim is bound")


def test_volume_is_provisioned_where_its_pod_is_bound(team):
    """The provisioner, played by the test, is told the node, and the pod waits for the volume."""
    waiting = team.storage_class(provisioner="e2e.example.com/nobody")
    data = team.claim("data", waiting)
    pod = team.pod(mounting=data, nodeSelector={ZONE: "east"})

    def selected():
        annotations = team.claim_of(data)["metadata"].get("annotations", {})
        return annotations.get("volume.kubernetes.io/selected-node")

    node = until(selected, "a node is selected")
    assert team.workers[node] == "east"
    assert not team.node_of(pod)
    team.volume(waiting, on=node, of_claim=data)
    team.expect_scheduled(pod, on=node)


def test_pods_of_other_schedulers_are_left_alone(team):
    foreign = team.pod(seats=0, scheduler="somebody-else")
    team.expect_scheduled(team.pod())

    assert not team.node_of(foreign)
    assert not team.events(foreign, "FailedScheduling")
