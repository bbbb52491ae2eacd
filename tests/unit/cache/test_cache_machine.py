"""Facts and assumptions in any order: the columns are equal to columns built from scratch."""

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.model.affinity_terms import TermKind
from scheduler.model.fact import Resource
from scheduler.model.host_ports import HostPort
from scheduler.model.objects import Namespace
from scheduler.model.pod_set import PodSet
from scheduler.model.selectors import EXISTS, NOT_IN, Requirement, from_map
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.disks import disks_of
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing.builders import make_node, make_object, make_pod
from tests.unit.plugins.storing import (
    RESOURCES as KINDS,
)
from tests.unit.plugins.storing import (
    attachment,
    claim,
    csi_node,
    storage_class,
    using,
    volume,
)

if TYPE_CHECKING:
    from scheduler.model.pod import Pod

NODES = st.sampled_from(["a", "b", "c", "d"])
NAMES = st.sampled_from([f"pod-{index}" for index in range(8)])
APPS = st.sampled_from(["app=x", "app=y", "tier=db", ""])
QUESTIONS = [
    PodSet(frozenset({"default"}), from_map({"app": "x"})),
    PodSet(None, from_map({}), terminating=True),
    PodSet(frozenset({"default", "other"}), from_map({"tier": "db"})),
]
TEAMS = st.sampled_from(["", "team=x", "team=y"])


def affinity(selector, key="zone", **term):
    """Make an affinity of every kind that is about pods which *selector* matches."""
    term |= {"labelSelector": {"matchLabels": selector}, "topologyKey": key}
    wish = {"weight": 7, "podAffinityTerm": term}
    side = {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [wish, wish],
    }
    return {"podAffinity": side, "podAntiAffinity": side}


AFFINITIES = st.sampled_from(
    [
        None,
        affinity({"app": "x"}),
        affinity({}, namespaces=["other"], namespaceSelector={"matchLabels": {"team": "x"}}),
        affinity({"app": "{{.bad-value.}}"}),
    ]
)
INCOMING = [
    make_pod("a", labels="app=x"),
    make_pod("b", namespace="other", labels="app=x"),
    make_pod("c", namespace="third", labels="app=y"),
]
RESOURCES = ["cpu", "memory", "pods", "example.com/gpu"]
LABELS = [
    Requirement("zone", EXISTS),
    Requirement("zone", NOT_IN, frozenset({"z1"})),
]
PORTS = [
    HostPort(ip="0.0.0.0", protocol="TCP", port=80),
    HostPort(ip="::", protocol="TCP", port=80),
]

DRIVER = "csi.example.com"
VOLUMES = [(DRIVER, "1"), (DRIVER, "2")]
MOUNTS = [
    [],
    using("x"),
    using("x", "y"),
    using("own*"),
    [{"name": "disk", "gcePersistentDisk": {"pdName": "d"}}],
]
THINGS = st.sampled_from(
    [
        claim("x", volume="pv"),
        claim("x", of="slow"),
        claim("y", volume="pv"),
        claim("y", of="slow", volume="other"),
        claim("pod-1-own", volume="other", owner="uid-default-pod-1"),
        claim("pod-2-own", volume="other", owner="somebody"),
        volume("pv", csi=f"{DRIVER}/1"),
        volume("pv", csi=f"{DRIVER}/2"),
        volume("other", csi=f"{DRIVER}/2"),
        volume("other", csi="other.example.com/2", of="slow"),
        storage_class("slow"),
        storage_class("slow", provisioner="other.example.com"),
        csi_node("a", csi_example_com=1),
        csi_node("a", csi_example_com=0, other=3),
        csi_node("b", other=7),
        attachment("va", "a", "pv"),
        attachment("va", "b", "other"),
    ]
)


def answers(nodes: NodeTable) -> dict[str, dict[str, object]]:
    """Return what every column has for every node, by name."""
    found: dict[str, dict[str, object]] = {name: {} for name in nodes.names}
    columns: dict[str, np.ndarray] = {
        "unschedulable": nodes.unschedulable,
        "pod_count": nodes.pod_count,
        "ports 0": nodes.port_conflicts(PORTS[:1]),
        "ports 1": nodes.port_conflicts(PORTS[1:]),
        "taints": nodes.by_taints(lambda taints: np.int64(len(taints))),
        "hashes": nodes.name_hashes,
    }
    for resource in RESOURCES:
        columns[f"allocatable {resource}"] = nodes.allocatable(resource)
        columns[f"requested {resource}"] = nodes.requested(resource)
    columns["nonzero"] = nodes.nonzero_requested("memory")
    for index, question in enumerate(QUESTIONS):
        columns[f"count {index}"] = nodes.count(question)
        everywhere = np.ones(len(nodes), dtype=np.bool_)
        domains = nodes.count_domains("zone", question, everywhere)
        columns[f"skew {index}"] = nodes.exceeding_skew(
            "zone", question, everywhere, most=1, needed=2
        )
        columns[f"here {index}"] = domains.here
        columns[f"least {index}"] = domains.least
    for pod in INCOMING:
        for kind in TermKind:
            for weighted in (False, True):
                for key, sums in nodes.sum_terms(pod, kind, weighted=weighted).items():
                    if sums.any():
                        columns[f"{kind} {pod.name} {key} {weighted} here"] = sums
            for key, presence in nodes.any_terms(pod, kind).items():
                if presence.anywhere.any():
                    columns[f"{kind} {pod.name} {key} any"] = presence.here
    for requirement in LABELS:
        columns[str(requirement)] = nodes.matching(requirement)
    for each in VOLUMES:
        columns[f"mounting {each}"] = nodes.mounting(each)
    columns["in use"] = nodes.volumes_in_use(DRIVER)
    columns["limit"] = nodes.volume_limit(DRIVER)
    columns["users"] = nodes.claim_users("default/x")
    columns["disks"] = nodes.disks_taken(disks_of(make_pod(volumes=MOUNTS[-1])))
    columns["problems"] = np.array([row in nodes.volume_problems for row in range(len(nodes))])
    image = nodes.image("nginx")
    for row, name in enumerate(nodes.names):
        found[name] = {question: column[row].item() for question, column in columns.items()}
        found[name]["image"] = None if image is None else (image[1], bool(image[2][row]))
        found[name]["closed"] = bool(nodes.closed.get(row))
    return found


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = ClusterCache()
        self.nodes: dict = {}
        self.added: dict[str, Pod] = {}
        self.assumed: dict[str, Pod] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.things: dict[tuple, object] = {}

    @rule(name=st.sampled_from(["default", "other", "third"]), labels=TEAMS)
    def add_namespace(self, name, labels):
        namespace = make_object(Namespace, name, namespace="", labels=labels)
        self.namespaces[name] = namespace
        self.cache.put(Resource.NAMESPACE, namespace)

    @precondition(lambda self: self.namespaces)
    @rule(data=st.data())
    def remove_namespace(self, data):
        name = data.draw(st.sampled_from(sorted(self.namespaces)))
        self.cache.drop(Resource.NAMESPACE, self.namespaces.pop(name))

    @rule(thing=THINGS)
    def add_thing(self, thing):
        resource = KINDS[type(thing)]
        self.things[resource, thing.metadata.namespace, thing.metadata.name] = thing
        self.cache.put(resource, thing)

    @precondition(lambda self: self.things)
    @rule(data=st.data())
    def remove_thing(self, data):
        key = data.draw(st.sampled_from(sorted(self.things)))
        self.cache.drop(key[0], self.things.pop(key))

    @rule(thing=THINGS)
    def assume_thing_and_take_it_back(self, thing):
        resource = KINDS[type(thing)]
        if self.cache.assume_object(resource, thing):
            answers(self.cache.view())
            self.cache.restore_object(resource, thing)

    @rule(
        name=NODES,
        cpu=st.integers(0, 8),
        gpu=st.integers(0, 2),
        zone=st.sampled_from(["z1", "z2", ""]),
        taints=st.sampled_from(["", "k=v:NoSchedule"]),
        cordoned=st.booleans(),
        image=st.booleans(),
        uid=st.sampled_from(["", "reborn"]),
    )
    def add_node(self, name, cpu, gpu, zone, taints, cordoned, image, uid):
        node = make_node(
            name,
            uid=uid,
            allocatable=f"{cpu} cpu, 4Gi, 10 pods" + (f", {gpu} example.com/gpu" if gpu else ""),
            labels=f"zone={zone}" if zone else "",
            taints=taints,
            unschedulable=cordoned,
            images={"nginx": "40Mi"} if image else None,
        )
        self.nodes[name] = node
        self.cache.update_node(node)

    @rule(name=NODES)
    def remove_node(self, name):
        self.nodes.pop(name, None)
        self.cache.remove_node(name)

    @rule(
        name=NAMES,
        node=NODES,
        app=APPS,
        cpu=st.integers(0, 3),
        gpu=st.integers(0, 1),
        port=st.booleans(),
        terminating=st.booleans(),
        affinity=AFFINITIES,
        volumes=st.sampled_from(MOUNTS),
    )
    def add_pod(self, name, node, app, cpu, gpu, port, terminating, affinity, volumes):
        pod = make_pod(
            name,
            node=node,
            labels=app,
            requests=f"{cpu} cpu" + (f", {gpu} example.com/gpu" if gpu else ""),
            host_ports=[80] if port else [],
            terminating=terminating,
            affinity=affinity,
            volumes=volumes,
        )
        self.assumed.pop(pod.uid, None)
        self.added[pod.uid] = pod
        self.cache.add_pod(pod)

    @rule(name=NAMES, node=NODES, app=APPS, affinity=AFFINITIES)
    def assume(self, name, node, app, affinity):
        pod = make_pod(name, labels=app, requests="1 cpu", affinity=affinity)
        if pod.uid not in self.added and pod.uid not in self.assumed:
            self.assumed[pod.uid] = self.cache.assume(pod, node)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def forget(self, data):
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        del self.assumed[uid]
        assert self.cache.forget(uid) is not None

    @rule(name=NAMES)
    def forgetting_what_is_not_assumed_changes_nothing(self, name):
        uid = make_pod(name).uid
        if uid not in self.assumed:
            assert self.cache.forget(uid) is None

    @precondition(lambda self: self.added or self.assumed)
    @rule(data=st.data())
    def remove_pod(self, data):
        uid = data.draw(st.sampled_from(sorted(self.added.keys() | self.assumed.keys())))
        self.added.pop(uid, None)
        self.assumed.pop(uid, None)
        self.cache.remove_pod(uid)

    @invariant()
    def every_pod_is_counted_once(self):
        self.cache.check_invariants()
        assert {pod.uid for pod in self.cache.assumed()} == self.assumed.keys()

    @invariant()
    def columns_equal_columns_built_from_scratch(self):
        fresh = ClusterColumns()
        for namespace in self.namespaces.values():
            fresh.objects.put(Resource.NAMESPACE, namespace)
        for (resource, *_), thing in self.things.items():
            fresh.objects.put(resource, thing)
        for node in self.nodes.values():
            row = fresh.add_node(node)
            for pod in (*self.added.values(), *self.assumed.values()):
                if pod.node_name == node.name:
                    fresh.add_pod(row, pod)

        assert answers(self.cache.view()) == answers(NodeTable(fresh))


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
