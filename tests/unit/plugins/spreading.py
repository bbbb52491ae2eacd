"""Constraints, and pods and nodes that they are about, from a few words."""

from scheduler.config.plugin_args import PodTopologySpreadArgs, SpreadConstraint
from scheduler.plugins import PodTopologySpread
from scheduler.testing import make_node, make_pod

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
HOST4 = [node(name) for name in "abcd"]
TYPO = [node("a"), node("b", without=["zone"], zon="zone1"), node("x"), node("y")]
LABEL_MISSING = [node("a"), node("b"), node("x", without=["node"]), node("y")]


def node_affinity(operator, *names):
    expression = {"key": "node", "operator": operator, "values": list(names)}
    terms = [{"matchExpressions": [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


IN_A_Y, NOT_IN_B = node_affinity("In", "a", "y"), node_affinity("NotIn", "b")


def soft(key, skew=1, selector=FOO, **more):
    return spread(key, skew, selector, SOFT, **more)


def listed(*constraints):
    return PodTopologySpread(
        PodTopologySpreadArgs(default_constraints=constraints, defaulting_type="List")
    )


HARD_HOST = SpreadConstraint(1, HOSTNAME, HARD)
