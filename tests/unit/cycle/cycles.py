"""One attempt at a pod, and plugins that answer as a test tells them to."""

from dataclasses import replace

import numpy as np

from scheduler.cycle.scheduling import Attempt
from scheduler.framework.rejection import Rejection
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from scheduler.testing.harness import bare_profile

POD = make_pod()


def table(*names, pods=()):
    columns = ClusterColumns()
    for name in names:
        columns.add_node(make_node(name) if isinstance(name, str) else name)
    for pod in pods:
        columns.add_pod(columns.rows[pod.node_name], pod)
    return NodeTable(columns)


def attempt(*plugins, nodes=("a", "b", "c"), pod=POD, percentage=0, **more):
    profile = replace(bare_profile(*plugins), percentage_of_nodes_to_score=percentage)
    view = nodes if isinstance(nodes, NodeTable) else table(*nodes)
    return Attempt(profile, pod, view, more.pop("nominated", {}), **more)


class Refuses:
    """A filter that refuses nodes by name; ``*`` refuses all."""

    def __init__(self, *names, name="Refuses", reason="no", resolvable=True):
        self.name = name
        self.names, self.reason, self.resolvable = names, reason, resolvable
        self.asked = []

    def filter(self, pod, nodes):
        self.asked.append(list(nodes.names))
        refused = np.array(["*" in self.names or n in self.names for n in nodes.names])
        if refused.any():
            yield Rejection(refused, self.reason, self.resolvable)


class Likes:
    """A score plugin that gives nodes points by name."""

    name = "Likes"

    def __init__(self, **points):
        self.points = points
        self.asked = []

    def score(self, pod, nodes):
        self.asked.append(sorted(nodes.names))
        return np.array([self.points.get(name, 0) for name in nodes.names], dtype=np.int64)


class First:
    """A pre-filter plugin with one answer."""

    def __init__(self, answer, name="First"):
        self.name = name
        self.answer = answer

    def pre_filter(self, pod, nodes):
        return self.answer


class After:
    """A post-filter plugin with one answer."""

    def __init__(self, answer, name="After"):
        self.name = name
        self.answer = answer
        self.asked = 0

    def post_filter(self, pod, nodes, diagnosis, ask):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(ask) if callable(self.answer) else self.answer


class Full:
    """A filter for which one pod a node is enough."""

    name = "Full"
    node_local = True

    def __init__(self):
        self.passes = 0

    def filter(self, pod, nodes):
        self.passes += 1
        yield Rejection(nodes.pod_count > 0, "full")
