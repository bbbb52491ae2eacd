"""Default constraints, and which pods they are about."""

from math import log

import pytest

from scheduler.config.plugin_args import PodTopologySpreadArgs, SpreadConstraint
from scheduler.errors import ConfigurationError
from scheduler.model.fact import Resource
from scheduler.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.plugins import PodTopologySpread
from scheduler.snapshot.default_selector import default_selector
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from tests.unit.plugins.plugin_calls import OK, U, added_to, codes, columns_of, scores
from tests.unit.plugins.spreading import (
    FOO,
    HARD,
    HARD_HOST,
    HOST4,
    HOSTNAME,
    PLUGIN,
    SOFT,
    ZONE,
    incoming,
    listed,
    placed,
    soft,
)


def service(name="web", **selector):
    return make_object(Service, name, spec={"selector": selector})


def owned(api_version, kind):
    reference = {"apiVersion": api_version, "kind": kind, "name": "owner", "controller": True}
    return {"owner_references": [reference]}


def with_objects(nodes, pods, objects):
    return NodeTable(added_to(objects, columns_of(nodes, pods)))


def test_the_systems_defaults_score_without_zones():
    nodes = with_objects(HOST4, placed("a4 b3 c2 d1"), {Resource.SERVICE: [service(foo="")]})

    assert scores(PLUGIN, make_pod(labels="foo"), nodes) == [44, 66, 77, 100]


def test_the_systems_defaults_take_nodes_without_a_zone_for_one_domain_more():
    mars = [make_node(name, zone="mars") for name in "ab"]
    nodes = with_objects(
        [*mars, make_node("x"), make_node("y")],
        placed("a3 x4"),
        {Resource.REPLICA_SET: [make_object(ReplicaSet, "owner", spec={"selector": FOO})]},
    )
    pod = make_pod(labels="foo", metadata=owned("apps/v1", "ReplicaSet"))

    by_host, by_zone = log(4 + 2), log(2 + 2)
    assert PLUGIN.score(pod, nodes).tolist() == [
        round(3 * by_host + 2 + 3 * by_zone + 4),
        round(0 * by_host + 2 + 3 * by_zone + 4),
        round(4 * by_host + 2),
        2,
    ]


def test_an_empty_zone_is_the_zone_of_those_that_have_none():
    """Upstream reads an absent label as an empty one, where it does not leave the node out."""
    nodes = with_objects(
        [make_node("a", zone="mars"), make_node("b", labels={ZONE: ""}), make_node("x")],
        placed("b1 x5"),
        {Resource.SERVICE: [service(foo="")]},
    )

    by_host, by_zone = log(3 + 2), log(2 + 2)
    assert PLUGIN.score(make_pod(labels="foo"), nodes).tolist() == [
        2 + 4,
        round(by_host + 2 + 6 * by_zone + 4),
        round(5 * by_host + 2),
    ]


@pytest.mark.parametrize(
    ("pod", "selector", "expected"),
    [
        pytest.param(make_pod(labels="foo"), {"foo": ""}, [U, OK], id="a service selects it"),
        pytest.param(make_pod(labels="foo"), {"bar": ""}, [OK, OK], id="none selects it"),
        pytest.param(
            incoming(soft(HOSTNAME)), {"foo": ""}, [OK, OK], id="one of its own, even if soft"
        ),
    ],
)
def test_listed_defaults_apply_to_pods_without_constraints(pod, selector, expected):
    objects = {Resource.SERVICE: [service(**selector)]}
    nodes = with_objects(HOST4[:2], placed("a1"), objects)

    assert codes(listed(HARD_HOST), pod, nodes) == expected


def test_listed_soft_defaults_ignore_nodes_without_their_keys():
    plugin = listed(SpreadConstraint(1, HOSTNAME, SOFT), SpreadConstraint(1, ZONE, SOFT))
    nodes = with_objects(
        [make_node("a", zone="mars"), make_node("b")],
        [],
        {Resource.SERVICE: [service(foo="")]},
    )

    assert scores(plugin, make_pod(labels="foo"), nodes) == [100, 0]


def test_default_constraints_need_what_selects_pods():
    kinds = {Resource.SERVICE, RS, SS, RC}

    assert PLUGIN.needs == kinds
    assert listed(HARD_HOST).needs == kinds
    assert listed().needs == frozenset()


RS, SS, RC = Resource.REPLICA_SET, Resource.STATEFUL_SET, Resource.REPLICATION_CONTROLLER
SELECTED = {"matchLabels": {"app": "web"}}
OWNERS = [
    ("nothing", {}, {}, None),
    ("a service", {Resource.SERVICE: [service(app="web")]}, {}, {"app": "web"}),
    ("two services", {Resource.SERVICE: [service("a", app="web"), service("b", tier="x")]}, {},
     {"app": "web", "tier": "x"}),
    ("a service of other pods", {Resource.SERVICE: [service(app="db")]}, {}, None),
    ("a service without a selector", {Resource.SERVICE: [make_object(Service, "a")]}, {}, None),
    ("a service with an empty selector", {Resource.SERVICE: [service()]}, {}, None),
    ("a replica set", {RS: [make_object(ReplicaSet, "owner", spec={"selector": SELECTED})]},
     owned("apps/v1", "ReplicaSet"), {"app": "web"}),
    ("a stateful set", {SS: [make_object(StatefulSet, "owner", spec={"selector": SELECTED})]},
     owned("apps/v1", "StatefulSet"), {"app": "web"}),
    ("a replication controller",
     {RC: [make_object(ReplicationController, "owner", spec={"selector": {"app": "web"}})]},
     owned("v1", "ReplicationController"), {"app": "web"}),
    ("another kind", {RS: [make_object(ReplicaSet, "owner", spec={"selector": SELECTED})]},
     owned("batch/v1", "Job"), None),
    ("another group", {RS: [make_object(ReplicaSet, "owner", spec={"selector": SELECTED})]},
     owned("example.com/v1", "ReplicaSet"), None),
    ("an owner that is gone", {}, owned("apps/v1", "ReplicaSet"), None),
    ("an owner of another name", {RS: [make_object(ReplicaSet, "x", spec={"selector": SELECTED})]},
     owned("apps/v1", "ReplicaSet"), None),
    ("an owner that cannot be read",
     {RS: [make_object(ReplicaSet, "owner",
                       spec={"selector": {"matchExpressions": [{"key": "?"}]}})]},
     owned("apps/v1", "ReplicaSet"), None),
    ("a service and a replica set",
     {Resource.SERVICE: [service(tier="x")],
      RS: [make_object(ReplicaSet, "owner", spec={"selector": SELECTED})]},
     owned("apps/v1", "ReplicaSet"), {"app": "web", "tier": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "metadata", "labels"), [pytest.param(*case[1:], id=case[0]) for case in OWNERS]
)
def test_services_and_owners_tell_which_pods_belong_together(objects, metadata, labels):
    pod = make_pod(labels="app=web, tier=x", metadata=metadata)

    found = default_selector(pod, with_objects([], [], objects).objects)

    assert {r.key: next(iter(r.values)) for r in found.requirements} == (labels or {})
    assert found.empty == (labels is None)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(PodTopologySpreadArgs(defaulting_type="None"), "defaultingType: ", id="type"),
        pytest.param(
            PodTopologySpreadArgs((HARD_HOST,)), "defaultConstraints: ", id="System and a list"
        ),
        pytest.param(
            PodTopologySpreadArgs((HARD_HOST, HARD_HOST), "List"),
            "defaultConstraints[1]: ",
            id="twice the same",
        ),
        pytest.param(
            PodTopologySpreadArgs((SpreadConstraint(1, ZONE, HARD, {}),), "List"),
            "defaultConstraints[0].labelSelector: ",
            id="a selector",
        ),
        pytest.param(
            PodTopologySpreadArgs((SpreadConstraint(0, ZONE, HARD),), "List"),
            "defaultConstraints[0].maxSkew: ",
            id="no skew",
        ),
    ],
)
def test_unusable_arguments_are_named(args, problem):
    with pytest.raises(ConfigurationError) as caught:
        PodTopologySpread(args)

    assert caught.value.problems[0].startswith(problem)
