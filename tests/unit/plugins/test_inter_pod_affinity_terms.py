"""Which pods a term is about: namespaces, and terms that cannot be read."""

import pytest

from scheduler.errors import MalformedObject
from scheduler.framework.rejection import Refused
from scheduler.model.fact import Resource
from scheduler.model.objects import Namespace
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_object, make_pod
from tests.unit.plugins.affinities import (
    ALONE,
    BAD,
    CROWDED,
    PLUGIN,
    PODLABEL,
    SCAN,
    UNWELCOME,
    cluster,
    nodes_of,
    on,
    term,
    verdicts,
    wants,
)
from tests.unit.plugins.plugin_calls import OK, columns_of, scores

SELECTED = [
    ("team1", "subteam2.team1", "team In team1", OK),
    ("team1, from team2", "subteam1.team2", "team In team1", ALONE),
    ("everybody", "subteam1.team2", "", OK),
    ("everybody, known or not", "never.heard.of", "", OK),
    ("nobody", "subteam1.team2", None, ALONE),
    ("namespaces with a team", "nsteam1", "team Exists", ALONE),
    # Upstream's quirk: what an unlabelled namespace satisfies is about all of them.
    ("all but team2 means all", "subteam1.team2", "team NotIn team2", OK),
    ("namespaces without a team means all", "subteam1.team2", "team DoesNotExist", OK),
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


def test_namespaces_are_watched_for_it():
    assert Resource.NAMESPACE in PLUGIN.needs


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


def test_every_invalid_term_is_reported():
    pod = make_pod(**wants(near=[term("zone", BAD)], apart=[term("zone", BAD)]))

    answer = PLUGIN.pre_filter(pod, cluster("a: zone=z1", []))

    assert answer.reason.startswith("parsing pod: [requiredAffinityTerms: ")
    assert ", requiredAntiAffinityTerms: " in answer.reason


def test_of_a_pod_that_is_there_unreadable_terms_are_left_out():
    unreadable = wants(apart=[term("zone", BAD)], likes=[(1, term("zone", "foo Exists"))])
    nodes = cluster("a: zone=z1; b: zone=z2", [on("a", "", unreadable)])

    assert verdicts(make_pod(labels="foo"), nodes) == [OK, OK]
    assert scores(PLUGIN, make_pod(labels="foo"), nodes) == [100, 0]
