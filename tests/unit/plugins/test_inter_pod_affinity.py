"""Near other pods, or apart from them."""

import numpy as np
import pytest

from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.errors import MalformedObject
from scheduler.framework.cluster_event import NODE, POD, Action
from scheduler.framework.rejection import Refused, Skip
from scheduler.model.fact import Resource
from scheduler.model.objects import Namespace
from scheduler.plugins import IN_TREE, InterPodAffinity
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from tests.unit.plugins.asking import OK, added_to, answers, columns_of, scores, table_of, wakes

PLUGIN = InterPodAffinity()
ALONE, CROWDED, UNWELCOME = "alone", "crowded", "unwelcome"
VERDICTS = {
    (OK, ()): OK,
    ("UAU", ("node(s) didn't match pod affinity rules",)): ALONE,
    ("U", ("node(s) didn't match pod anti-affinity rules",)): CROWDED,
    ("U", ("node(s) didn't satisfy existing pods anti-affinity rules",)): UNWELCOME,
}
NAMESPACES = [
    make_object(Namespace, "subteam1.team1", namespace="", labels="team=team1"),
    make_object(Namespace, "subteam2.team1", namespace="", labels="team=team1"),
    make_object(Namespace, "subteam1.team2", namespace="", labels="team=team2"),
    make_object(Namespace, "nsteam1", namespace="", labels=""),
]


def select(words):
    """Read ``service In a b, security Exists`` as a label selector; None is none."""
    if words is None:
        return None
    expressions = [each.split() for each in words.split(",") if each.strip()]
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, "values": values}
            for key, operator, *values in expressions
        ]
    }


def term(key, words, *, where=None, **more):
    """Make a term; *where* selects namespaces."""
    found = {"topologyKey": key, "labelSelector": select(words), **more}
    return found if where is None else found | {"namespaceSelector": select(where)}


def wants(near=(), apart=(), likes=(), dislikes=()):
    """Make the affinity of a pod: required terms, and pairs of a weight and a term."""

    def side(required, preferred):
        wishes = [{"weight": weight, "podAffinityTerm": each} for weight, each in preferred]
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": list(required),
            "preferredDuringSchedulingIgnoredDuringExecution": wishes,
        }

    return {
        "affinity": {"podAffinity": side(near, likes), "podAntiAffinity": side(apart, dislikes)}
    }


def nodes_of(words):
    """Read ``a: zone=z1 region=r1; b: zone=z2``."""
    pairs = (each.partition(":") for each in words.split(";"))
    return [
        make_node(
            name.strip(), metadata={"labels": dict(pair.split("=") for pair in labels.split())}
        )
        for name, _, labels in pairs
    ]


def on(node, labels="", affinity=None, **more):
    """Make a pod that is on *node* already."""
    on.count += 1
    return make_pod(f"there-{on.count}", node=node, labels=labels, **(affinity or {}), **more)


on.count = 0


def cluster(nodes, pods):
    columns = columns_of(nodes_of(nodes), pods)
    return NodeTable(added_to({Resource.NAMESPACE: NAMESPACES}, columns))


def verdicts(pod, nodes, plugin=PLUGIN):
    return [VERDICTS[answer] for answer in answers(plugin, pod, nodes).values()]


ONE = "machine1: region=r1 zone=z11"
PODLABEL = "service=securityscan"
SCAN = "service In securityscan value2"
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
def test_the_first_of_a_kind_is_let_in(nodes, pods, labels, affinity, expected):
    pod = make_pod("incoming", labels=labels, **affinity)

    assert verdicts(pod, cluster(nodes, pods)) == expected


SELECTED = [
    ("team1", "subteam2.team1", "team In team1", OK),
    ("team1, from team2", "subteam1.team2", "team In team1", ALONE),
    ("everybody", "subteam1.team2", "", OK),
    ("everybody, known or not", "never.heard.of", "", OK),
    ("nobody", "subteam1.team2", None, ALONE),
    ("whoever has a team", "nsteam1", "team Exists", ALONE),
    # Upstream's quirk: what an unlabelled namespace satisfies is about all of them.
    ("all but team2 means all", "subteam1.team2", "team NotIn team2", OK),
    ("whoever has no team means all", "subteam1.team2", "team DoesNotExist", OK),
]


@pytest.mark.parametrize(("what", "namespace", "where", "expected"), SELECTED)
def test_terms_of_the_incoming_pod_select_namespaces(what, namespace, where, expected):
    nodes = cluster("a: zone=z1", [on("a", PODLABEL, namespace=namespace)])
    near = make_pod("near", **wants(near=[term("zone", SCAN, where=where)]))
    apart = make_pod("apart", **wants(apart=[term("zone", SCAN, where=where)]))

    assert verdicts(near, nodes) == [expected]
    assert verdicts(apart, nodes) == [CROWDED if expected == OK else OK]


@pytest.mark.parametrize(
    ("namespace", "where", "expected"),
    [
        ("subteam2.team1", "team In team1", UNWELCOME),
        ("subteam1.team2", "team In team1", OK),
        ("subteam1.team2", "", UNWELCOME),
        ("subteam1.team2", "team NotIn team2", OK),
        ("nsteam1", "team DoesNotExist", UNWELCOME),
        ("never.heard.of", "team DoesNotExist", UNWELCOME),
    ],
)
def test_terms_of_pods_that_are_there_read_the_labels_of_the_namespace(namespace, where, expected):
    there = on("a", "", wants(apart=[term("zone", SCAN, where=where)]))
    pod = make_pod("incoming", namespace=namespace, labels=PODLABEL)

    assert verdicts(pod, cluster("a: zone=z1", [there])) == [expected]


def test_a_namespace_that_gets_other_labels_is_seen_with_them():
    columns = columns_of(nodes_of("a: zone=z1"), [on("a", PODLABEL, namespace="moving")])
    pod = make_pod("incoming", **wants(apart=[term("zone", SCAN, where="team In team1")]))

    for labels, expected in (("", OK), ("team=team1", CROWDED), ("team=team2", OK)):
        moved = make_object(Namespace, "moving", namespace="", labels=labels)
        columns.objects.put(Resource.NAMESPACE, moved)
        assert verdicts(pod, NodeTable(columns)) == [expected]


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
def test_pods_that_nobody_could_object_to_are_skipped(pods, pod, expected):
    assert PLUGIN.pre_filter(pod, cluster("a: zone=z1", pods)) == expected


BAD = "service In {{.bad-value.}}"


@pytest.mark.parametrize(
    ("affinity", "what"),
    [
        (wants(near=[term("zone", BAD)]), "requiredAffinityTerms"),
        (wants(apart=[term("zone", BAD)]), "requiredAntiAffinityTerms"),
        (wants(likes=[(1, term("zone", BAD))]), "preferredAffinityTerms"),
        (wants(dislikes=[(1, term("zone", BAD))]), "preferredAntiAffinityTerms"),
        (wants(near=[term("zone", "", where=BAD)]), "requiredAffinityTerms"),
    ],
)
def test_a_pod_that_cannot_be_read_fits_nowhere(affinity, what):
    pod, nodes = make_pod(**affinity), cluster("a: zone=z1", [])

    answer = PLUGIN.pre_filter(pod, nodes)

    assert isinstance(answer, Refused)
    assert answer.reason.startswith(f"parsing pod: {what}: ")
    assert "{{.bad-value.}}" in answer.reason
    assert not answer.resolvable
    with pytest.raises(MalformedObject, match="bad-value"):
        PLUGIN.score(pod, nodes)


def test_all_that_cannot_be_read_is_told():
    pod = make_pod(**wants(near=[term("zone", BAD)], apart=[term("zone", BAD)]))

    answer = PLUGIN.pre_filter(pod, cluster("a: zone=z1", []))

    assert answer.reason.startswith("parsing pod: [requiredAffinityTerms: ")
    assert ", requiredAntiAffinityTerms: " in answer.reason


def test_of_a_pod_that_is_there_unreadable_terms_are_left_out():
    unreadable = wants(apart=[term("zone", BAD)], likes=[(1, term("zone", "foo Exists"))])
    nodes = cluster("a: zone=z1; b: zone=z2", [on("a", "", unreadable)])

    assert verdicts(make_pod(labels="foo"), nodes) == [OK, OK]
    assert scores(PLUGIN, make_pod(labels="foo"), nodes) == [100, 0]


# What if.


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


def test_a_row_whose_company_goes_is_alone_in_its_own_world():
    company = on("a", "foo")
    nodes = cluster("a: zone=z1; b: zone=z1", [company]).each(removing={0: [company]})
    pod = make_pod("incoming", **wants(near=[term("zone", "foo Exists")]))
    first = make_pod("first", labels="foo", **wants(near=[term("zone", "foo Exists")]))

    assert verdicts(pod, nodes) == [ALONE, OK]
    assert verdicts(first, nodes) == [OK, OK]


def test_terms_that_only_a_pod_to_come_carries_count():
    shy = make_pod("shy", **wants(apart=[term("zone", "foo Exists")]))
    nodes = cluster("a: zone=z1; b: zone=z1", []).each(adding={0: [shy]})

    assert verdicts(make_pod(labels="foo"), nodes) == [UNWELCOME, OK]


def test_terms_whose_last_carrier_goes_count_no_more():
    shy = on("a", "", wants(apart=[term("zone", "foo Exists")]))
    nodes = cluster("a: zone=z1; b: zone=z1", [shy]).each(removing={0: [shy]})

    assert verdicts(make_pod(labels="foo"), nodes) == [OK, UNWELCOME]


# Scores.

S1, S2 = "security=S1", "security=S2"
REGIONS = "a: region=China; b: region=India; c: az=az1"
FIVE = "a: region=China; b: region=China; c: region=China; d: region=India; e: region=India"
NEAR_S1 = wants(likes=[(5, term("region", "security In S1"))])
NEAR_S2 = wants(likes=[(6, term("region", "security In S2"))])
TWO_WISHES = wants(
    likes=[
        (8, term("region", "security NotIn S1, security In S2")),
        (2, term("region", "security Exists, wrongkey DoesNotExist")),
    ]
)
AWAY_FROM_S1 = wants(dislikes=[(5, term("az", "security In S1"))])
AWAY_FROM_S2_IN_AZ = wants(dislikes=[(5, term("az", "security In S2"))])
MUST_S1 = wants(near=[term("region", "security In S1")])
BOTH = NEAR_S1["affinity"] | {"podAntiAffinity": AWAY_FROM_S2_IN_AZ["affinity"]["podAntiAffinity"]}
TEAM1 = "team In team1"

PREFERRED = [
    ("no wishes anywhere", REGIONS, [on("a", S1)], make_pod(), None),
    ("no node", "a: region=x", [], make_pod(**NEAR_S1), None),
    ("nobody whom it likes", REGIONS, [on("a", S2)], make_pod(**NEAR_S1), None),
    ("liked on a node without the key", REGIONS, [on("c", S1)], make_pod(**NEAR_S1), None),
    ("near one", REGIONS, [on("a", S1), on("b", S2), on("c", S1)], make_pod(**NEAR_S1),
     [100, 0, 0]),
    ("a domain is shared", "a: region=China; b: region=China; c: region=India", [on("a", S1)],
     make_pod(**NEAR_S1), [100, 100, 0]),
    ("the more the better", FIVE,
     [on("a", S2), on("a", S2), on("b", S2), on("c", S2), on("d", S2), on("e", S2)],
     make_pod(**NEAR_S2), [100, 100, 100, 0, 0]),
    ("two wishes", REGIONS, [on("a", S1), on("b", S2)], make_pod(**TWO_WISHES), [20, 100, 0]),
    ("the wishes of others", REGIONS, [on("a", S1, NEAR_S1), on("b", S2, NEAR_S2)],
     make_pod(labels=S2), [0, 100, 0]),
    ("others who must be near", "a: region=China; b: region=India; c: az=az1",
     [on("a", S1, MUST_S1), on("b", S2, MUST_S1)], make_pod(labels=S1), [100, 100, 0]),
    ("others who must be near another kind", REGIONS, [on("a", S1, MUST_S1)], make_pod(labels=S2),
     None),
    ("others who must be apart say nothing", REGIONS,
     [on("a", S1, wants(apart=[term("region", "security In S1")]))], make_pod(labels=S1), None),
    ("away from one", "a: az=az1; b: region=China", [on("a", S1), on("b", S2)],
     make_pod(**AWAY_FROM_S1), [0, 100]),
    ("away from one, more away from two", "a: az=az1; b: az=az2; c: az=az3",
     [on("a", S1), on("b", S1), on("b", S1)], make_pod(**AWAY_FROM_S1), [50, 0, 100]),
    ("others would be away from it", "a: az=az1; b: az=az2",
     [on("a", S2, AWAY_FROM_S2_IN_AZ), on("b", S1, NEAR_S1)], make_pod(labels=S2), [0, 100]),
    ("liked here and disliked there", "a: region=China az=az1; b: region=India az=az2",
     [on("a", S1), on("b", S2)], make_pod(affinity=BOTH), [100, 0]),
    ("everything at once", "a: region=China; b: az=az1; c: region=China; d: az=az1",
     [on("a", S1, NEAR_S2), on("b", S2, AWAY_FROM_S2_IN_AZ)],
     make_pod(labels=S2, affinity=BOTH), [100, 0, 100, 0]),
    ("a plain pod and one with wishes in the same region",
     "a: region=China; b: region=China", [on("a", S1), on("b", S1, NEAR_S1)], make_pod(**NEAR_S1),
     [0, 0]),
    ("wishes that cancel out", "a: region=China; b: region=India",
     [on("a", f"{S1}, tier=x")],
     make_pod(**wants(likes=[(5, term("region", "security In S1"))],
                      dislikes=[(5, term("region", "tier In x"))])), [0, 0]),
    ("a wish of others for team1", REGIONS,
     [on("a", S1, wants(likes=[(5, term("region", "security In S2", where=TEAM1))])),
      on("b", S1, wants(likes=[(5, term("region", "security In S2", where="team In team2"))]))],
     make_pod(labels=S2, namespace="subteam1.team1"), [100, 0, 0]),
    ("a dislike of others for team1", REGIONS,
     [on("a", S1, wants(dislikes=[(5, term("region", "security In S2", where=TEAM1))]))],
     make_pod(labels=S2, namespace="subteam1.team1"), [0, 100, 100]),
    ("a wish for team1", REGIONS,
     [on("a", S1, namespace="subteam1.team1"), on("b", S1, namespace="subteam1.team2")],
     make_pod(**wants(likes=[(5, term("region", "security In S1", where=TEAM1))])), [100, 0, 0]),
    ("others of team1 must be near, but it is of team2", REGIONS,
     [on("a", S1, wants(near=[term("region", "security In S1", where=TEAM1)]))],
     make_pod(labels=S1, namespace="subteam1.team2"), None),
    ("a ratio is cut off after it is multiplied", "a: zone=1; b: zone=2; c: zone=3",
     [on("a", "many"), on("b", "few")],
     make_pod(**wants(likes=[(100, term("zone", "many Exists")),
                             (29, term("zone", "few Exists"))])), [100, 28, 0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in PREFERRED],
)
def test_nodes_are_ranked_by_how_welcome_their_surroundings_are(nodes, pods, pod, expected):
    assert scores(PLUGIN, pod, cluster(nodes, pods)) == expected


@pytest.mark.parametrize(("weight", "expected"), [(1, [20, 100]), (10, [100, 50]), (0, [0, 100])])
def test_what_others_require_is_worth_what_the_configuration_says(weight, expected):
    plugin = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=weight))
    wish = wants(likes=[(5, term("region", "security Exists"))])
    nodes = "a: region=1; b: region=2; c: az=1"

    found = scores(
        plugin, make_pod(labels=S1), cluster(nodes, [on("a", "", MUST_S1), on("b", "", wish)])
    )

    assert found is not None
    assert found[:2] == expected


def test_worth_nothing_it_is_not_counted():
    plugin = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=0))

    assert scores(plugin, make_pod(labels=S1), cluster(REGIONS, [on("a", S1, MUST_S1)])) is None


@pytest.mark.parametrize(
    ("ignored", "affinity", "expected"),
    [
        pytest.param(True, {}, None, id="ignored"),
        pytest.param(False, {}, [0, 100], id="heard"),
        pytest.param(True, NEAR_S1, [0, 100], id="heard by whoever has wishes"),
    ],
)
def test_wishes_of_others_can_be_ignored(ignored, affinity, expected):
    plugin = InterPodAffinity(InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=ignored))
    nodes = cluster("a: region=China; b: region=India", [on("a"), on("b", "", NEAR_S1)])

    assert scores(plugin, make_pod(labels=S1, **affinity), nodes) == expected


def test_only_the_feasible_nodes_are_stretched_but_all_are_counted():
    nodes = cluster(
        "a: region=China; b: region=China; c: region=India; d: region=Peru",
        [on("a", S1), on("c", S1), on("c", S1)],
    )

    found = scores(PLUGIN, make_pod(**NEAR_S1), nodes.select(np.array([1, 2])))

    assert found == [0, 100]


# Requeueing.

NEAR = make_pod("target", labels="foo", **wants(near=[term("zone", "app In web")]))
NEAR_TWO = make_pod(**wants(near=[term("zone", "app In web"), term("rack", "tier In x")]))
APART = make_pod("target", labels="foo", **wants(apart=[term("zone", "app In web")]))
APART_TWO = make_pod(**wants(apart=[term("zone", "app In web"), term("rack", "tier In x")]))
PLAIN = make_pod("target", labels="foo")
WEB = make_pod("other", node="a", labels="app=web")
WEB_X = make_pod("other", node="a", labels="app=web, tier=x")
DB = make_pod("other", node="a", labels="app=db")
SHY = make_pod("other", node="a", **wants(apart=[term("zone", "foo Exists")]))
FLOATING = make_pod("other", labels="app=web")
NOMINATED = make_pod("other", nominated="a", labels="app=web")
IN_TEAM1 = make_pod(**wants(near=[term("zone", "app In web", where="team In team1")]))
ANYWHERE = make_pod(**wants(near=[term("zone", "app In web", where="")]))
UNREADABLE = make_pod(**wants(near=[term("zone", BAD)]))
ADD, DELETE, LABELS = Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL

POD_HINTS = [
    ("company comes", NEAR, ADD, None, WEB, True),
    ("others come", NEAR, ADD, None, DB, False),
    ("company comes that has no node", NEAR, ADD, None, FLOATING, False),
    ("company is nominated", NEAR, ADD, None, NOMINATED, True),
    ("company for one of two terms", NEAR_TWO, ADD, None, WEB, False),
    ("company for both terms", NEAR_TWO, ADD, None, WEB_X, True),
    ("company comes, but distance was wanted", APART, ADD, None, WEB, False),
    ("company in any namespace", ANYWHERE, ADD, None, WEB, True),
    ("labels of namespaces are not seen", IN_TEAM1, ADD, None, WEB, False),
    ("somebody becomes company", NEAR, LABELS, DB, WEB, True),
    ("somebody is company still", NEAR, LABELS, WEB, WEB_X, False),
    ("somebody is company no more", NEAR, LABELS, WEB, DB, False),
    ("an unwanted one becomes another", APART, LABELS, WEB, DB, True),
    ("an unwanted one stays so", APART, LABELS, WEB, WEB_X, False),
    ("somebody becomes unwanted", APART, LABELS, DB, WEB, False),
    ("its own labels change", PLAIN, LABELS, PLAIN, PLAIN, True),
    ("labels of a pod without a node", NEAR, LABELS, FLOATING, FLOATING, False),
    ("an unwanted one goes", APART, DELETE, WEB, None, True),
    ("another goes", APART, DELETE, DB, None, False),
    ("one that only one of two terms is about goes", APART_TWO, DELETE, WEB, None, False),
    ("one that both terms are about goes", APART_TWO, DELETE, WEB_X, None, True),
    ("one that wanted distance goes", PLAIN, DELETE, SHY, None, True),
    ("one that wanted distance to others goes", make_pod(), DELETE, SHY, None, False),
    ("company goes", NEAR, DELETE, WEB, None, False),
    ("anything, where the terms cannot be read", UNREADABLE, ADD, None, DB, True),
]


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in POD_HINTS],
)
def test_other_pods_may_help(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, POD, action, old, new) is expected


def zoned(words):
    return make_node("a", metadata={"labels": dict(pair.split("=") for pair in words.split())})


NODE_LABELS = Action.UPDATE_NODE_LABEL
NODE_HINTS = [
    ("a node with the key comes", NEAR, ADD, None, zoned("zone=1"), True),
    ("a node without the key comes", NEAR, ADD, None, zoned("rack=1"), False),
    ("a node with one of two keys comes", NEAR_TWO, ADD, None, zoned("rack=1"), True),
    ("any node comes, for distance", APART, ADD, None, zoned("rack=1"), True),
    ("the key appears", NEAR, NODE_LABELS, zoned("rack=1"), zoned("zone=1"), True),
    ("the zone changes", NEAR, NODE_LABELS, zoned("zone=1"), zoned("zone=2"), True),
    ("the key disappears", NEAR, NODE_LABELS, zoned("zone=1"), zoned("rack=1"), False),
    ("the zone stays", NEAR, NODE_LABELS, zoned("zone=1"), zoned("zone=1 rack=1"), False),
    ("distance: the key appears", APART, NODE_LABELS, zoned("rack=1"), zoned("zone=1"), False),
    ("distance: the zone changes", APART, NODE_LABELS, zoned("zone=1"), zoned("zone=2"), True),
    ("distance: the key disappears", APART, NODE_LABELS, zoned("zone=1"), zoned("rack=1"), True),
    ("a pod without terms gets a node", PLAIN, ADD, None, zoned("zone=1"), False),
    ("and new labels", PLAIN, NODE_LABELS, zoned("zone=1"), zoned("zone=2"), False),
    ("anything, where the terms cannot be read", UNREADABLE, ADD, None, zoned(""), True),
]


@pytest.mark.parametrize(
    ("pod", "action", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in NODE_HINTS],
)
def test_nodes_may_help(pod, action, old, new, expected):
    assert wakes(PLUGIN, pod, NODE, action, old, new) is expected


def test_changes_of_other_kinds_help_nobody():
    assert not wakes(PLUGIN, NEAR, NODE, Action.UPDATE_NODE_TAINT, zoned("zone=1"), zoned("zone=2"))
    assert not wakes(PLUGIN, NEAR, POD, Action.UPDATE_POD_TOLERATION, WEB, WEB)


def test_namespaces_are_watched_for_it():
    assert Resource.NAMESPACE in PLUGIN.needs


def test_it_is_asked_after_spreading():
    order = list(IN_TREE)
    assert order[order.index("PodTopologySpread") + 1] == "InterPodAffinity"


def test_a_table_of_no_nodes_is_no_trouble():
    assert answers(PLUGIN, make_pod(**wants(near=[term("zone", "")])), table_of([])) == {}
