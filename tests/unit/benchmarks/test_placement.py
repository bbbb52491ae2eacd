"""The check of the final placement: it finds each kind of mistake, and no other."""

import pytest

from benchmarks.placement import check

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = [
    {"metadata": {"name": "measured", "labels": {"team": "devops"}}},
    {"metadata": {"name": "other", "labels": {"team": "devops"}}},
    {"metadata": {"name": "aside", "labels": {}}},
]


def node(name, zone="a", pods="3", taints=()):
    labels = {HOST: name, ZONE: zone}
    resources = {"cpu": "4", "memory": "8Gi", "pods": pods, "foo.com/bar": "1"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": resources},
    }


def pod(name, on, namespace="measured", requests=None, labels=None, **spec):
    container = {"name": "main", "resources": {"requests": requests or {}}}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"nodeName": on, "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


NODES = [node("n1"), node("n2"), node("n3", zone="b"), node("n4", zone="b")]


def problems(*pods, nodes=NODES):
    return check(pods, nodes, NAMESPACES, "measured")


def test_nothing_is_wrong_with_plain_pods():
    assert problems(pod("a", "n1", requests={"cpu": "4"}), pod("b", "n2")) == []


def test_a_measured_pod_is_unbound_and_another_may_be():
    found = problems(pod("a", ""), pod("b", "", namespace="other"))

    assert found == ["measured/a is not bound"]


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        ({"cpu": "1500m"}, "n1 holds 4500 of cpu, and has 4000"),
        ({"memory": "3Gi"}, f"n1 holds {9 << 30} of memory, and has {8 << 30}"),
        ({"foo.com/bar": "1"}, "n1 holds 3 of foo.com/bar, and has 1"),
        ({"foo.com/none": "1"}, "n1 holds 3 of foo.com/none, and has 0"),
    ],
)
def test_a_node_holds_too_much(requests, says):
    assert problems(*(pod(name, "n1", requests=requests) for name in "abc")) == [says]


def test_a_node_holds_too_many_pods_but_not_those_that_have_ended():
    pods = [pod(name, "n1") for name in "abcd"]

    assert problems(*pods) == ["n1 holds 4 of pods, and has 3"]

    pods[0]["status"]["phase"] = "Succeeded"

    assert problems(*pods) == []


def test_node_affinity_and_taints():
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    tainted = node("n5", taints=[{"key": "foo", "effect": "NoSchedule"}])
    tolerations = [{"key": "foo", "operator": "Exists"}]

    assert problems(pod("a", "n1", affinity=affinity)) == [
        "measured/a is on n1 against its node affinity"
    ]
    assert problems(pod("a", "n3", affinity=affinity)) == []
    assert problems(pod("a", "n5"), nodes=[tainted]) == ["measured/a is on n5 against a taint"]
    assert problems(pod("a", "n5", tolerations=tolerations), nodes=[tainted]) == []


def between(side, key, **more):
    term = {"labelSelector": {"matchLabels": {"color": "green"}}, "topologyKey": key, **more}
    return {"affinity": {side: {REQUIRED: [term]}}}


def test_anti_affinity_keeps_others_away_in_the_namespaces_that_it_names():
    apart = between("podAntiAffinity", ZONE)
    green = {"color": "green"}
    other = pod("b", "n2", namespace="other", labels=green)

    assert problems(pod("a", "n1", labels=green, **apart)) == []
    assert problems(pod("a", "n1", **apart), pod("b", "n2")) == []
    assert problems(pod("a", "n1", **apart), pod("b", "n2", labels=green)) == [
        "measured/a is in a with measured/b against its anti-affinity"
    ]
    assert problems(pod("a", "n1", **apart), other) == []
    named = between("podAntiAffinity", ZONE, namespaces=["other"])
    assert len(problems(pod("a", "n1", **named), other)) == 1
    selected = between(
        "podAntiAffinity", ZONE, namespaceSelector={"matchLabels": {"team": "devops"}}
    )
    assert len(problems(pod("a", "n1", **selected), other)) == 1
    aside = pod("c", "n2", namespace="aside", labels=green)
    assert problems(pod("a", "n1", **selected), aside) == []


def test_affinity_wants_others_unless_a_pod_was_the_first():
    together = between("podAffinity", ZONE)
    green = {"color": "green"}

    assert problems(pod("a", "n1", labels=green, **together)) == []
    assert problems(pod("a", "n1", **together), pod("b", "n2", labels=green)) == []
    assert problems(pod("a", "n1", **together), pod("b", "n3", labels=green)) == [
        "measured/a is in a without those of its affinity"
    ]
    apart = [pod("a", "n1", labels=green, **together), pod("b", "n3", labels=green, **together)]
    assert len(problems(*apart)) == 2


def spread(maximum, key=ZONE, action="DoNotSchedule", **more):
    constraint = {
        "maxSkew": maximum,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"color": "green"}},
        **more,
    }
    return {"topologySpreadConstraints": [constraint], "labels": {"color": "green"}}


def test_a_hard_spread_is_kept():
    assert problems(*(pod(name, "n1", **spread(2)) for name in "ab")) == []
    assert problems(*(pod(name, "n1", **spread(1)) for name in "ab")) == [
        f"a skew of 2 over {ZONE} in measured, where 1 is allowed"
    ]
    assert problems(*(pod(name, "n1", **spread(1, action="ScheduleAnyway")) for name in "ab")) == []


def test_tainted_nodes_count_for_a_spread_unless_it_honours_taints():
    tainted = node("n9", zone="c", taints=[{"key": "foo", "effect": "NoSchedule"}])
    pods = [
        pod(f"{name}{number}", name, **spread(1, ZONE))
        for name in ("n1", "n3")
        for number in range(2)
    ]
    honoured = [
        pod(f"{name}{number}", name, **spread(1, ZONE, nodeTaintsPolicy="Honor"))
        for name in ("n1", "n3")
        for number in range(2)
    ]

    assert problems(*honoured, nodes=[*NODES, tainted]) == []
    assert len(problems(*pods, nodes=[*NODES, tainted])) == 1


def test_many_mistakes_of_one_kind_are_counted():
    found = problems(*(pod(f"p{number}", "") for number in range(9)))

    assert found[-1] == "and 4 more of this kind"
    assert len(found) == 6
