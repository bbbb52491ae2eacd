"""What is preferred: near other pods, or apart from them."""

import numpy as np
import pytest

from scheduler.config.plugin_args import InterPodAffinityArgs
from scheduler.plugins import InterPodAffinity
from scheduler.testing import make_pod
from tests.unit.plugins.affinities import PLUGIN, cluster, on, term, wants
from tests.unit.plugins.plugin_calls import scores

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
def test_nodes_are_scored_by_the_terms_around_them(nodes, pods, pod, expected):
    assert scores(PLUGIN, pod, cluster(nodes, pods)) == expected


@pytest.mark.parametrize(("weight", "expected"), [(1, [20, 100]), (10, [100, 50]), (0, [0, 100])])
def test_required_affinity_of_existing_pods_has_the_configured_weight(weight, expected):
    plugin = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=weight))
    wish = wants(likes=[(5, term("region", "security Exists"))])
    nodes = "a: region=1; b: region=2; c: az=1"

    found = scores(
        plugin, make_pod(labels=S1), cluster(nodes, [on("a", "", MUST_S1), on("b", "", wish)])
    )

    assert found is not None
    assert found[:2] == expected


def test_with_weight_0_it_is_not_counted():
    plugin = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=0))

    assert scores(plugin, make_pod(labels=S1), cluster(REGIONS, [on("a", S1, MUST_S1)])) is None


@pytest.mark.parametrize(
    ("ignored", "affinity", "expected"),
    [
        pytest.param(True, {}, None, id="ignored"),
        pytest.param(False, {}, [0, 100], id="heard"),
        pytest.param(True, NEAR_S1, [0, 100], id="counted for pods with preferences"),
    ],
)
def test_preferred_terms_of_existing_pods_can_be_ignored(ignored, affinity, expected):
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
