"""What is required: near other pods, or apart from them."""

import pytest

from scheduler.framework.rejection import Skip
from scheduler.plugins import IN_TREE
from scheduler.testing import make_pod
from tests.unit.plugins.affinities import (
    ALONE,
    CROWDED,
    PLUGIN,
    PODLABEL,
    SCAN,
    UNWELCOME,
    cluster,
    on,
    term,
    verdicts,
    wants,
)
from tests.unit.plugins.plugin_calls import OK, answers, table_of

ONE = "machine1: region=r1 zone=z11"
SERVICE_ABSENT = "service NotIn securityscan3 value3"
MIX = "service Exists, service In securityscan, security NotIn s9, wrong DoesNotExist"
REQUIRED = [
    ("nothing is required of an empty node", ONE, [], "", {}, [OK]),
    ("wanted company is there", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", SCAN)]), [OK]),
    ("company that is none of the unwanted", ONE, [on("machine1", PODLABEL)], "security=S1",
     wants(near=[term("region", SERVICE_ABSENT)]), [OK]),
    ("company in another namespace", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", SCAN, namespaces=["elsewhere"])]), [ALONE]),
    ("company that was named", ONE, [on("machine1", PODLABEL, namespace="elsewhere")], "",
     wants(near=[term("region", SCAN, namespaces=["elsewhere"])]), [OK]),
    ("other company", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", "service In antivirusscan value2")]), [ALONE]),
    ("no selector matches nothing", ONE, [on("machine1", PODLABEL)], PODLABEL,
     wants(near=[term("region", None)]), [ALONE]),
    ("an empty selector matches anything", ONE, [on("machine1")], "",
     wants(near=[term("region", "")]), [OK]),
    ("two terms that hold", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", MIX), term("region", "wrongkey DoesNotExist")]), [OK]),
    ("two terms, one of which does not", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", MIX), term("region", "service NotIn securityscan")]), [ALONE]),
    ("a pod that is being deleted is company", ONE, [on("machine1", PODLABEL, terminating=True)],
     "", wants(near=[term("region", SCAN)]), [OK]),
    ("company, and nobody unwanted", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", SCAN)], apart=[term("zone", "service In antivirusscan")]), [OK]),
    ("company, but somebody unwanted too", ONE, [on("machine1", PODLABEL)], "",
     wants(near=[term("region", SCAN)], apart=[term("zone", SCAN)]), [CROWDED]),
    ("unwanted by somebody there", ONE,
     [on("machine1", PODLABEL, wants(apart=[term("zone", SCAN)]))], PODLABEL,
     wants(near=[term("region", SCAN)], apart=[term("zone", "service In antivirusscan")]),
     [UNWELCOME]),
    ("somebody there wants to be apart from others", ONE,
     [on("machine1", PODLABEL, wants(apart=[term("zone", "security In S1")]))], PODLABEL, {},
     [OK]),
    ("who wants to be apart may be in another namespace", ONE,
     [on("machine1", "", wants(apart=[term("zone", SCAN)]), namespace="elsewhere")], PODLABEL, {},
     [OK]),
    ("unwanted by somebody who is being deleted", ONE,
     [on("machine1", "", wants(apart=[term("zone", SCAN)]), terminating=True)], PODLABEL, {},
     [UNWELCOME]),
    ("a1: one of two terms is met", ONE,
     [on("machine1", "security=x", wants(apart=[term("zone", "security Exists")]))], "service=x",
     wants(apart=[term("zone", "service Exists"), term("zone", "security Exists")]), [CROWDED]),
    ("a2: one of their two terms is met", ONE,
     [on("machine1", "service=x",
         wants(apart=[term("zone", "service Exists"), term("zone", "security Exists")]))],
     "security=x", wants(apart=[term("zone", "security Exists")]), [UNWELCOME]),
    ("b1: unwanted on both sides", ONE,
     [on("machine1", "abc, xyz",
         wants(apart=[term("zone", "abc Exists"), term("zone", "def Exists")]))],
     "def, xyz", wants(apart=[term("zone", "abc Exists"), term("zone", "def Exists")]),
     [CROWDED]),
    ("b2: the other way round", ONE,
     [on("machine1", "def, xyz",
         wants(apart=[term("zone", "abc Exists"), term("zone", "def Exists")]))],
     "abc, xyz", wants(apart=[term("zone", "abc Exists"), term("zone", "def Exists")]),
     [CROWDED]),
    ("own rules speak first", ONE,
     [on("machine1", "foo=abc", wants(apart=[term("zone", "foo In abc")]))], "foo=abc",
     wants(apart=[term("region", "foo In abc")]), [CROWDED]),
    ("the same region will do", "a: region=China; b: region=China; c: region=India",
     [on("a", "foo=bar")], "", wants(near=[term("region", "foo In bar")]), [OK, OK, ALONE]),
    ("any node that lacks the key is out", "a: region=China; b: zone=z", [on("a", "foo=bar")], "",
     wants(near=[term("region", "foo In bar")]), [OK, ALONE]),
    ("apart: a node that lacks the key is fine", "a: region=China; b: zone=z",
     [on("a", "foo=bar"), on("b", "foo=bar")], "", wants(apart=[term("region", "foo In bar")]),
     [CROWDED, OK]),
    ("any term keeps apart", "a: region=r1 zone=z1; b: region=r1 zone=z2",
     [on("a", "foo=abc, bar=x")], "",
     wants(apart=[term("region", "foo In abc"), term("zone", "bar Exists")]), [CROWDED] * 2),
    ("one term keeps apart within a zone", "a: region=r1 zone=z1; b: region=r1 zone=z2",
     [on("a", "foo=abc")], "",
     wants(apart=[term("zone", "foo In abc"), term("region", "bar Exists")]), [CROWDED, OK]),
    ("a key that no node has keeps nobody apart", "a: region=r1 zone=z1; b: region=r1 zone=z2",
     [on("a", "foo=abc")], "",
     wants(apart=[term("invalid", "foo In abc"), term("zone", "bar Exists")]), [OK, OK]),
    ("unwanted in two domains", "a: region=r1 zone=z1; b: region=r1 zone=z2; c: region=r2 zone=z3",
     [on("a", "", wants(apart=[term("zone", "foo Exists")])),
      on("b", "", wants(apart=[term("zone", "foo Exists")]))], "foo=abc", {},
     [UNWELCOME, UNWELCOME, OK]),
    ("unwanted in a zone and a region",
     "a: region=r1 zone=z1; b: region=r1 zone=z2; c: region=r2 zone=z3; d: region=r2 zone=z1",
     [on("a", "", wants(apart=[term("zone", "foo Exists")])),
      on("b", "", wants(apart=[term("region", "foo Exists")]))], "foo=abc", {},
     [UNWELCOME, UNWELCOME, OK, UNWELCOME]),
    ("somebody on a node without the key keeps nobody away", "a: zone=z1; b: region=r1",
     [on("a", "", wants(apart=[term("region", "foo Exists")]))], "foo=abc", {}, [OK, OK]),
    ("one pod must meet all terms", "a: region=r1 zone=z1; b: region=r1 zone=z1",
     [on("a", "foo=x"), on("b", "bar=x")], "",
     wants(near=[term("region", "foo Exists"), term("zone", "bar Exists")]), [ALONE, ALONE]),
    ("and one does", "a: region=r1 zone=z1; b: region=r1 zone=z1", [on("a", "foo=x, bar=x")], "",
     wants(near=[term("region", "foo Exists"), term("zone", "bar Exists")]), [OK, OK]),
    ("two terms about different namespaces are met by nobody", "a: region=r1 zone=z1",
     [on("a", "foo=x"), on("a", "foo=x", namespace="elsewhere")], "",
     wants(near=[term("region", "foo Exists"),
                 term("zone", "foo Exists", namespaces=["elsewhere"])]), [ALONE]),
    ("two terms about overlapping namespaces", "a: region=r1 zone=z1",
     [on("a", "foo=x", namespace="elsewhere")], "",
     wants(near=[term("region", "foo Exists", where=""),
                 term("zone", "foo Exists", namespaces=["elsewhere", "here"])]), [OK]),
    ("it may meet one term here and the other there",
     "a: region=r1 zone=z1; b: region=r1 zone=z2; c: region=r2 zone=z2",
     [on("a", "foo=x"), on("c", "foo=x")], "",
     wants(near=[term("region", "foo Exists"), term("zone", "foo Exists")]), [OK, OK, OK]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "labels", "affinity", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in REQUIRED],
)
def test_what_is_required_is_kept(nodes, pods, labels, affinity, expected):
    pod = make_pod("incoming", labels=labels, **affinity)

    assert verdicts(pod, cluster(nodes, pods)) == expected


SELF = wants(near=[term("zone", "foo In bar"), term("zone", "service In securityscan")])
SELF_LABELS = "foo=bar, service=securityscan"
FIRST = [
    ("nobody is there", "a: zone=z1; b: zone=z2", [], SELF_LABELS, SELF, [OK, OK]),
    ("somebody meets one term only", "a: zone=z1; b: zone=z2", [on("a", "foo=bar")], SELF_LABELS,
     SELF, [OK, OK]),
    ("somebody meets all, so it is not the first", "a: zone=z1; b: zone=z2",
     [on("a", SELF_LABELS)], SELF_LABELS, SELF, [OK, ALONE]),
    ("it does not meet its own terms", "a: zone=z1; b: zone=z2", [], "foo=bar", SELF,
     [ALONE, ALONE]),
    ("nodes without the key", "a: zoneLabel=z1; b: zoneLabel=z2", [], SELF_LABELS, SELF,
     [ALONE, ALONE]),
    ("one node with the key", "a: zoneLabel=z1; b: zone=z2", [], SELF_LABELS, SELF, [ALONE, OK]),
    ("company on a node without the key does not count", "a: zoneLabel=z1; b: zone=z2",
     [on("a", SELF_LABELS)], SELF_LABELS, SELF, [ALONE, OK]),
    ("company on a node with one of two keys does", "a: zone=z1; b: zone=z2 rack=r1",
     [on("a", "foo=bar")], "foo=bar",
     wants(near=[term("zone", "foo In bar"), term("rack", "foo In bar")]), [ALONE, ALONE]),
    ("its own namespace is not meant", "a: zone=z1", [], "foo=bar",
     wants(near=[term("zone", "foo In bar", namespaces=["elsewhere"])]), [ALONE]),
    ("its own namespace is selected by name alone", "a: zone=z1", [], "foo=bar",
     wants(near=[term("zone", "foo In bar", where="", namespaces=["elsewhere"])]), [OK]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "labels", "affinity", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in FIRST],
)
def test_the_first_pod_of_a_workload_may_match_itself(nodes, pods, labels, affinity, expected):
    pod = make_pod("incoming", labels=labels, **affinity)

    assert verdicts(pod, cluster(nodes, pods)) == expected


def test_keys_to_match_are_left_to_the_api_server():
    """It wrote them into the selector when the pod was created."""
    written = term("zone", "app In web", matchLabelKeys=["rev"], mismatchLabelKeys=["tenant"])
    pod = make_pod("incoming", labels="app=web, rev=2", **wants(apart=[written]))

    assert verdicts(pod, cluster("a: zone=z1", [on("a", "app=web, rev=1")])) == [CROWDED]


OBJECTING = on("a", "", wants(apart=[term("zone", "foo Exists")]))
OFF_THE_MAP = on("a", "", wants(apart=[term("invalid", "foo Exists")]))


@pytest.mark.parametrize(
    ("pods", "pod", "expected"),
    [
        pytest.param([], make_pod(labels="foo"), Skip(), id="no terms anywhere"),
        pytest.param([OBJECTING], make_pod(labels="foo"), None, id="somebody objects"),
        pytest.param([OBJECTING], make_pod(), Skip(), id="somebody objects to others"),
        pytest.param([OFF_THE_MAP], make_pod(labels="foo"), Skip(), id="under a key of no node"),
        pytest.param([], make_pod(**wants(near=[term("zone", "")])), None, id="it is to be near"),
        pytest.param([], make_pod(**wants(apart=[term("zone", "")])), None, id="apart"),
        pytest.param([], make_pod(**wants(likes=[(1, term("zone", ""))])), Skip(), id="a wish"),
    ],
)
def test_pods_without_terms_are_skipped_unless_existing_terms_match(pods, pod, expected):
    assert PLUGIN.pre_filter(pod, cluster("a: zone=z1", pods)) == expected


def test_pods_that_may_come_or_go_count_on_their_own_node_alone():
    nodes = cluster(
        "a: zone=z1; b: zone=z1; c: zone=z2; d: rack=r1",
        [on("a", "foo"), victim := on("b", "foo")],
    )
    pod = make_pod("incoming", **wants(apart=[term("zone", "foo Exists")]))
    what_if = nodes.each(
        adding={2: [make_pod("n1", labels="foo")], 3: [make_pod("n2", labels="foo")]},
        removing={1: [victim]},
    )

    assert verdicts(pod, nodes) == [CROWDED, CROWDED, OK, OK]
    assert verdicts(pod, what_if) == [CROWDED, CROWDED, CROWDED, OK]


def test_a_what_if_without_the_matching_pods_rejects_its_row():
    company = on("a", "foo")
    nodes = cluster("a: zone=z1; b: zone=z1", [company]).each(removing={0: [company]})
    pod = make_pod("incoming", **wants(near=[term("zone", "foo Exists")]))
    first = make_pod("first", labels="foo", **wants(near=[term("zone", "foo Exists")]))

    assert verdicts(pod, nodes) == [ALONE, OK]
    assert verdicts(first, nodes) == [OK, OK]


def test_terms_of_added_pods_count():
    shy = make_pod("shy", **wants(apart=[term("zone", "foo Exists")]))
    nodes = cluster("a: zone=z1; b: zone=z1", []).each(adding={0: [shy]})

    assert verdicts(make_pod(labels="foo"), nodes) == [UNWELCOME, OK]


def test_terms_of_removed_pods_do_not_count():
    shy = on("a", "", wants(apart=[term("zone", "foo Exists")]))
    nodes = cluster("a: zone=z1; b: zone=z1", [shy]).each(removing={0: [shy]})

    assert verdicts(make_pod(labels="foo"), nodes) == [OK, UNWELCOME]


def test_it_runs_after_spreading():
    order = list(IN_TREE)
    assert order[order.index("PodTopologySpread") + 1] == "InterPodAffinity"


def test_a_table_of_no_nodes_is_no_trouble():
    assert answers(PLUGIN, make_pod(**wants(near=[term("zone", "")])), table_of([])) == {}
