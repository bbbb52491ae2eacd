"""Pods that want to be near each other or apart, from a few words."""

from scheduler.model.fact import Resource
from scheduler.model.objects import Namespace
from scheduler.plugins import InterPodAffinity
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from tests.unit.plugins.plugin_calls import OK, added_to, answers, columns_of

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


PODLABEL = "service=securityscan"
SCAN = "service In securityscan value2"
BAD = "service In {{.bad-value.}}"


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
