"""Spreading pods of a kind over domains."""

from math import log

import pytest

from scheduler.config.plugin_args import PodTopologySpreadArgs, SpreadConstraint
from scheduler.errors import ConfigurationError, MalformedObject
from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.framework.rejection import Skip
from scheduler.model.fact import Resource
from scheduler.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.plugins import PodTopologySpread
from scheduler.snapshot.default_selector import default_selector
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from tests.unit.plugins.asking import (
    OK,
    UAU,
    U,
    added_to,
    answers,
    codes,
    columns_of,
    scores,
    table_of,
    wakes,
)

PLUGIN = PodTopologySpread()
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FOO = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
BAR = {"matchExpressions": [{"key": "bar", "operator": "Exists"}]}
ZONES = {"a": "zone1", "b": "zone1", "x": "zone2", "y": "zone2"}


def spread(key, skew=1, selector=FOO, action=HARD, **more):
    written = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action}
    return written | {"labelSelector": selector} | more


def incoming(*constraints, labels="foo", **more):
    return make_pod("incoming", labels=labels, topology_spread_constraints=constraints, **more)


def node(name, *, without=(), **labels):
    known = {"zone": ZONES.get(name, ""), "node": name, HOSTNAME: name} | labels
    kept = {key: value for key, value in known.items() if key not in without}
    return make_node(name, metadata={"labels": kept})


def placed(words, **more):
    """Read ``a2 b1 y:bar``: two pods labelled foo on a, one on b, and one labelled bar on y."""
    pods = []
    for word in words.split():
        where, _, label = word.partition(":")
        name, count = (where[0], int(where[1:])) if where[1:].isdigit() else (where, 1)
        for _ in range(count):
            pods.append(make_pod(f"p{len(pods)}", node=name, labels=label or "foo", **more))
    return pods


ABXY = [node(name) for name in "abxy"]
TYPO = [node("a"), node("b", without=["zone"], zon="zone1"), node("x"), node("y")]
LABEL_MISSING = [node("a"), node("b"), node("x", without=["node"]), node("y")]


def node_affinity(operator, *names):
    expression = {"key": "node", "operator": operator, "values": list(names)}
    terms = [{"matchExpressions": [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


IN_A_Y, NOT_IN_B = node_affinity("In", "a", "y"), node_affinity("NotIn", "b")
BOTH = [spread("zone"), spread("node")]
FOO_ZONE_BAR_NODE = [spread("zone"), spread("node", selector=BAR)]

FILTER = [
    ("no pods", ABXY, "", incoming(spread("zone")), [OK] * 4),
    ("even zones", ABXY, "a2 b1 y3", incoming(spread("zone")), [OK] * 4),
    ("uneven zones", ABXY, "a2 b1 y2", incoming(spread("zone")), [U, U, OK, OK]),
    ("a typo in a label", TYPO, "a1 b1 x1 y1", incoming(spread("zone")), [OK, UAU, U, U]),
    ("a key that no node has", ABXY, "a1", incoming(spread("rack")), [UAU] * 4),
    ("nodes", ABXY, "a2 b1 y3", incoming(spread("node")), [U, U, OK, U]),
    ("nodes, skew 2", ABXY, "a2 b1 y3", incoming(spread("node", 2)), [U, OK, OK, U]),
    ("it is not one of them", ABXY, "a2 b1 y3", incoming(spread("node"), labels=""),
     [U, OK, OK, U]),
    ("excluded nodes do not count, but fit here", ABXY, "a2 b1 y3",
     incoming(spread("node"), **IN_A_Y), [OK, OK, OK, U]),
    ("excluded nodes count if told so", ABXY, "a2 b1 y3",
     incoming(spread("node", nodeAffinityPolicy="Ignore"), **IN_A_Y), [U, U, OK, U]),
    ("an excluded node of a zone", ABXY, "b2 y1", incoming(spread("zone"), **NOT_IN_B),
     [OK, OK, U, U]),
    ("a selector excludes too", ABXY, "b2 y1",
     incoming(spread("zone"), node_selector="node=y"), [OK, OK, OK, OK]),
    ("too few domains", ABXY[:3], "a2 b2 x1", incoming(spread("node", 2, minDomains=4)),
     [U, U, OK]),
    ("enough domains", ABXY[:3], "a2 b2 x1", incoming(spread("node", 2, minDomains=2)), [OK] * 3),
    ("too few zones", ABXY, "a1 b1 x1", incoming(spread("zone", 2, minDomains=3)), [U, U, OK, OK]),
    ("enough zones", ABXY, "a1 b1 x1", incoming(spread("zone", 2, minDomains=1)), [OK] * 4),
    ("zone and node", ABXY, "a2 b1 y3", incoming(*BOTH), [U, U, OK, U]),
    ("zone and node, none", ABXY, "a2 b1 y4", incoming(*BOTH), [U] * 4),
    ("foo by zone, bar by node", ABXY, "a y:bar",
     incoming(*FOO_ZONE_BAR_NODE, labels="foo, bar"), [U, U, OK, U]),
    ("foo by zone, bar by node, none", ABXY, "a x:bar y:bar",
     incoming(*FOO_ZONE_BAR_NODE, labels="foo, bar"), [U] * 4),
    ("foo by zone, bar by node, one left", ABXY, "a2 x3 a:bar y:bar",
     incoming(*FOO_ZONE_BAR_NODE, labels="foo, bar"), [U, OK, U, U]),
    ("it is bar, not foo", ABXY, "a x:bar y:bar", incoming(*FOO_ZONE_BAR_NODE, labels="bar"),
     [OK, OK, U, U]),
    ("a node without a key counts for no constraint", LABEL_MISSING, "a1 y1", incoming(*BOTH),
     [U, OK, UAU, U]),
    ("pods on such a node count neither", LABEL_MISSING, "a1 x5 y1", incoming(*BOTH),
     [U, OK, UAU, U]),
    ("a missing key of a later constraint", LABEL_MISSING, "a1 b1", incoming(*BOTH),
     [U, U, UAU, OK]),
    ("an earlier constraint speaks first", LABEL_MISSING, "x1 y1", incoming(*BOTH),
     [OK, OK, U, U]),
    ("no selector matches nothing", ABXY, "a5", incoming(spread("node", selector=None)),
     [OK] * 4),
    ("an empty selector counts nobody", ABXY, "a5", incoming(spread("node", selector={})),
     [OK] * 4),
    ("two constraints on one key", ABXY, "a:bar x",
     incoming(spread("zone"), spread("zone", selector=BAR), labels="foo, bar"), [U] * 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "expected"), [pytest.param(*case[1:], id=case[0]) for case in FILTER]
)
def test_uneven_nodes_are_rejected(nodes, pods, pod, expected):
    assert codes(PLUGIN, pod, table_of(nodes, placed(pods))) == expected


def test_the_reasons_are_upstreams():
    found = answers(PLUGIN, incoming(spread("zone")), table_of(TYPO, placed("a1 b1 x1 y1")))

    reason = "node(s) didn't match pod topology spread constraints"
    assert found["b"] == (UAU, (f"{reason} (missing required label)",))
    assert found["x"] == (U, (reason,))


def test_terminating_pods_are_not_counted():
    pods = [
        make_pod("going", node="a", labels="foo", terminating=True),
        make_pod("staying", node="b", labels="foo"),
    ]

    assert codes(PLUGIN, incoming(spread("node")), table_of(ABXY[:2], pods)) == [OK, U]


def test_an_empty_selector_counts_nobody_in_any_world():
    nodes = table_of(ABXY, placed("a2 b1"))
    nominated = make_pod("nominated", labels="foo")
    what_if = nodes.each(adding={0: [nominated]})

    for world in (nodes, what_if):
        assert codes(PLUGIN, incoming(spread("node", labelSelector={})), world) == [OK] * 4


def test_pods_of_other_namespaces_are_not_counted():
    nodes = table_of(ABXY, placed("a2", namespace="other"))

    assert codes(PLUGIN, incoming(spread("node")), nodes) == [OK] * 4


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"nodeTaintsPolicy": "Honor"}, [OK, OK, OK], id="honored"),
        pytest.param({"nodeTaintsPolicy": "Ignore"}, [U, U, OK], id="ignored"),
        pytest.param({}, [U, U, OK], id="ignored unless told otherwise"),
    ],
)
def test_tainted_nodes_count_or_not(more, expected):
    tainted = make_node("x", metadata={"labels": {"node": "x"}}, taints="foo:NoSchedule")
    nodes = table_of([node("a"), node("b"), tainted], placed("a1 b1"))

    assert codes(PLUGIN, incoming(spread("node", **more)), nodes) == expected


def test_labels_named_by_the_constraint_narrow_its_selector():
    pod = incoming(spread("node", matchLabelKeys=["rev", "absent"]), labels="foo, rev=2")
    pods = [
        make_pod("old", node="a", labels="foo, rev=1"),
        make_pod("new", node="b", labels="foo, rev=2"),
    ]

    assert codes(PLUGIN, pod, table_of(ABXY, pods)) == [OK, U, OK, OK]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [pytest.param(None, OK, id="nothing"), pytest.param({}, U, id="those labels alone")],
)
def test_such_labels_narrow_nothing_and_everything(selector, expected):
    pod = incoming(spread("node", selector=selector, matchLabelKeys=["rev"]), labels="rev=2")
    nodes = table_of(ABXY, [make_pod("new", node="b", labels="rev=2")])

    assert codes(PLUGIN, pod, nodes) == [OK, expected, OK, OK]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(), id="no constraints"),
        pytest.param(incoming(spread("zone", action=SOFT)), id="soft constraints"),
    ],
)
def test_pods_without_hard_constraints_are_skipped(pod):
    assert PLUGIN.pre_filter(pod, table_of(ABXY)) == Skip()


def test_an_invalid_selector_cannot_be_judged():
    selector = {"matchExpressions": [{"key": "foo", "operator": "Gt", "values": ["1"]}]}

    with pytest.raises(MalformedObject, match=r"^spec\.topologySpreadConstraints\[0\]"):
        PLUGIN.pre_filter(incoming(spread("zone", selector=selector)), table_of(ABXY))


def test_a_part_of_the_cluster_is_judged_by_all_of_it():
    nodes = table_of(ABXY, placed("a2 b1 y3"))

    assert codes(PLUGIN, incoming(spread("node")), nodes.select(nodes.named("ab"))) == [U, U]


# Scores.


def soft(key, skew=1, selector=FOO, **more):
    return spread(key, skew, selector, SOFT, **more)


HOST4 = [node(name) for name in "abcd"]
NO_HOST_B = [node("a"), node("b", without=[HOSTNAME]), node("x")]

SCORES = [
    ("no pods", HOST4[:2], "", incoming(soft(HOSTNAME)), "ab", [100, 100]),
    ("one candidate", HOST4[:2], "a2 b1", incoming(soft(HOSTNAME)), "a", [100]),
    ("equal counts", HOST4[:2], "a1 b1", incoming(soft(HOSTNAME)), "ab", [100, 100]),
    ("hosts", HOST4, "a2 b1 d3", incoming(soft(HOSTNAME)), "abcd", [20, 60, 100, 0]),
    ("no selector", HOST4, "a2 b1 d3", incoming(soft(HOSTNAME, selector=None)), "abcd", [100] * 4),
    ("hosts, skew 2", HOST4, "a2 b1 d3", incoming(soft(HOSTNAME, 2)), "abcd", [33, 66, 100, 16]),
    ("hosts, skew 3", HOST4, "a4 b3 c2 d1", incoming(soft(HOSTNAME, 3)), "abcd",
     [44, 66, 77, 100]),
    ("one is no candidate", ABXY, "a4 b2 x1 y3", incoming(soft(HOSTNAME)), "abx", [33, 83, 100]),
    ("one lacks the label", NO_HOST_B, "a4 b1 x1", incoming(soft(HOSTNAME)), "abx", [16, 0, 100]),
    ("zones count what is no candidate", ABXY, "a4 b2 x1 y3", incoming(soft("zone")), "abx",
     [75, 75, 100]),
    ("zones and hosts", ABXY, "a2 b1 x2 y4", incoming(soft("zone"), soft(HOSTNAME)), "ax",
     [100, 63]),
    ("two kinds over zones", ABXY, "a3 a:bar b:bar x3 x:bar",
     incoming(soft("zone"), soft("zone", selector=BAR), labels="foo, bar"), "abxy",
     [85, 85, 100, 100]),
    ("foo over zones, bar over hosts", ABXY, "a2 x1 b:bar y:bar",
     incoming(soft("zone"), soft(HOSTNAME, selector=BAR), labels="foo, bar"), "abxy",
     [60, 20, 100, 60]),
    ("foo in one zone, bar over hosts", ABXY, "x2 b:bar y:bar",
     incoming(soft("zone"), soft(HOSTNAME, selector=BAR), labels="foo, bar"), "abxy",
     [100, 60, 40, 0]),
    ("foo over zones, bar over hosts, one no candidate", ABXY, "a2 x1 b:bar y:bar",
     incoming(soft("zone"), soft(HOSTNAME, selector=BAR), labels="foo, bar"), "abx",
     [50, 25, 100]),
    ("minDomains has no say", ABXY, "a4 b2 x1 y3", incoming(soft("zone", minDomains=10)), "abx",
     [75, 75, 100]),
    ("all are ignored", ABXY, "a1", incoming(soft("rack")), "ab", [0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "candidates", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in SCORES],
)
def test_fewer_pods_around_are_better(nodes, pods, pod, candidates, expected):
    table = table_of(nodes, placed(pods))

    assert scores(PLUGIN, pod, table.select(table.named(candidates))) == expected


def test_scores_leave_out_other_namespaces_and_terminating_pods():
    pods = [
        *placed("a1 b2"),
        make_pod("elsewhere", node="a", labels="foo", namespace="other"),
        make_pod("going", node="a", labels="foo", terminating=True),
    ]

    assert scores(PLUGIN, incoming(soft(HOSTNAME)), table_of(HOST4[:2], pods)) == [100, 33]


def test_a_host_counts_its_pods_whatever_policies_say():
    pod = incoming(soft(HOSTNAME), **IN_A_Y)

    assert scores(PLUGIN, pod, table_of(ABXY, placed("a1 b2"))) == [50, 0, 100, 100]


def test_excluded_nodes_do_not_count_for_zones():
    pod = incoming(soft("zone"), **NOT_IN_B)

    assert scores(PLUGIN, pod, table_of(ABXY, placed("a1 b9 x1"))) == [100] * 4


def test_a_pod_without_soft_constraints_is_not_scored():
    assert scores(PLUGIN, incoming(spread("zone")), table_of(ABXY)) is None
    assert scores(PLUGIN, make_pod(labels="foo"), table_of(ABXY)) is None


# Defaults.


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


def listed(*constraints):
    return PodTopologySpread(
        PodTopologySpreadArgs(default_constraints=constraints, defaulting_type="List")
    )


HARD_HOST = SpreadConstraint(1, HOSTNAME, HARD)


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


# Hints.

LABEL, TOLERATION = Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION
TARGET = incoming(spread("zone"), spread("node", selector=BAR))
HONORING = incoming(spread("zone", nodeTaintsPolicy="Honor"))


def other(labels="foo", **more):
    return make_pod("other", labels=labels, **({"node": "a"} | more))


POD_HINTS = [
    ("a counted pod came", TARGET, Action.ADD, None, other(), True),
    ("counted by the second constraint", TARGET, Action.ADD, None, other("bar"), True),
    ("another kind came", TARGET, Action.ADD, None, other("baz"), False),
    ("one without a node", TARGET, Action.ADD, None, other(node=""), False),
    ("one that is nominated", TARGET, Action.ADD, None, other(node="", nominated="a"), True),
    ("one of another namespace", TARGET, Action.ADD, None, other(namespace="x"), False),
    ("a counted pod went", TARGET, Action.DELETE, other(), None, True),
    ("another kind went", TARGET, Action.DELETE, other("baz"), None, False),
    ("it became counted", TARGET, LABEL, other(""), other(), True),
    ("it is counted no more", TARGET, LABEL, other(), other(""), True),
    ("from one kind to the other", TARGET, LABEL, other(), other("bar"), True),
    ("a label that does not matter", TARGET, LABEL, other("foo"), other("foo, x"), False),
    ("the pod's own label", TARGET, LABEL, TARGET, incoming(labels=""), True),
    ("the pod's own tolerations", HONORING, TOLERATION, HONORING,
     incoming(tolerations="x"), True),
    ("the pod's own tolerations, taints ignored", TARGET, TOLERATION, TARGET,
     incoming(tolerations="x"), False),
    ("another pod's tolerations", HONORING, TOLERATION, other(), other(tolerations="x"), False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in POD_HINTS],
)
def test_changed_counts_wake_the_pod(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, POD, action, old, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, other(), True, id="came"),
        pytest.param(other(), other("bar"), True, id="changed its labels"),
        pytest.param(other(), other(tolerations="x"), False, id="changed something else"),
    ],
)
def test_with_default_constraints_any_pod_of_the_namespace_may_count(old, new, expected):
    action = Action.ADD if old is None else LABEL

    assert wakes(listed(HARD_HOST), make_pod(), POD, action, old, new) == expected


def test_an_invalid_selector_is_in_doubt():
    selector = {"matchExpressions": [{"key": "foo", "operator": "Gt", "values": ["1"]}]}
    pod = incoming(spread("zone", selector=selector))

    assert wakes(PLUGIN, pod, POD, Action.ADD, None, other())


def zoned(zone="zone1", name="a", **more):
    return make_node("n", metadata={"labels": {"zone": zone, "node": name}}, **more)


BARE = make_node("n")
NODE_LABEL, NODE_TAINT = Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT

NODE_HINTS = [
    ("one with all keys came", TARGET, Action.ADD, None, zoned(), True),
    ("one without a key came", TARGET, Action.ADD, None, BARE, False),
    ("one with all keys went", TARGET, Action.DELETE, zoned(), None, True),
    ("one without a key went", TARGET, Action.DELETE, BARE, None, False),
    ("it got its keys", TARGET, NODE_LABEL, BARE, zoned(), True),
    ("it lost its keys", TARGET, NODE_LABEL, zoned(), BARE, True),
    ("it moved", TARGET, NODE_LABEL, zoned(), zoned("zone2"), True),
    ("other labels changed", incoming(spread("zone")), NODE_LABEL, zoned(), zoned(name="b"), False),
    ("its taints changed", TARGET, NODE_TAINT, zoned(), zoned(taints="x:NoSchedule"), True),
    ("without keys, its taints changed", TARGET, NODE_TAINT, BARE,
     make_node("n", taints="x:NoSchedule"), False),
    ("no constraint: any node", make_pod(), Action.ADD, None, BARE, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in NODE_HINTS],
)
def test_changed_domains_wake_the_pod(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, NODE, action, old, new) == expected
