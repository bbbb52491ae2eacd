"""Random clusters: nodes, pods, storage, an incoming pod, and what-if changes."""

from random import Random

from hypothesis import strategies as st

from scheduler.model.fact import Resource
from scheduler.model.objects import Namespace
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_object, make_pod
from tests.unit.plugins.plugin_calls import added_to, columns_of
from tests.unit.plugins.storing import (
    RESOURCES,
    attachment,
    claim,
    csi_node,
    storage_class,
    using,
    volume,
)

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU, DRIVER = "example.com/gpu", "csi.example.com"
NAMESPACES = [
    make_object(Namespace, name, namespace="", labels=labels)
    for name, labels in (("default", "team=x"), ("other", "team=y"))
]
CLAIMS = [f"c{i}" for i in range(5)]
STORAGE = [
    storage_class("slow"),
    *(volume(f"pv{i}", csi=f"{DRIVER}/{i}", labels={ZONE: "z1__z2"}) for i in range(4)),
    volume("far", of="slow", within={ZONE: "z2"}),
    claim("c0", volume="pv0", modes=["ReadWriteOncePod"]),
    claim("c1", volume="pv1"),
    claim("c2", volume="pv2", modes=["ReadWriteOncePod"]),
    claim("c3", of="slow"),
    claim("c4", of="slow", size="5Gi"),
    claim("p1-own", volume="pv3", owner="uid-default-p1"),
]


def any_volumes(random):
    disks = [
        {"name": "gce", "gcePersistentDisk": {"pdName": "x", "readOnly": random.random() < 0.5}},
        {"name": "rbd", "rbd": {"monitors": random.sample("abc", k=2), "pool": "p", "image": "i"}},
    ]
    if random.random() < 0.5:
        return []
    chosen = using(*random.sample([*CLAIMS, "own*"], k=random.choice([1, 2])))
    return chosen + (random.sample(disks, k=1) if random.random() < 0.3 else [])


def any_storage(random, names):
    """Return volumes, claims and classes, with random limits and attachments."""
    limits = [csi_node(name, csi_example_com=random.choice([0, 1, 2, 9])) for name in names]
    chosen = random.sample(names, k=random.choice([0, 1]))
    attached = [attachment(f"va-{name}", name, "pv3", DRIVER) for name in chosen]
    return [*STORAGE, *random.sample(limits, k=random.randint(0, len(limits))), *attached]


def any_node(random, name):
    labels = {"disk": random.choice(["ssd", "hdd"])} if random.random() < 0.8 else {}
    return make_node(
        name,
        allocatable={
            "cpu": random.choice(["0", "2", "4"]),
            "memory": random.choice(["0", "4Gi", "8Gi"]),
            "pods": str(random.choice([1, 2, 3, 110])),
            GPU: random.choice(["0", "2"]),
        },
        zone=random.choice(["", "z1", "z2"]),
        labels=labels,
        taints=random.sample(["a=b:NoSchedule", "c=d:PreferNoSchedule", "e:NoExecute"], k=1)
        if random.random() < 0.3
        else [],
        unschedulable=random.random() < 0.1,
        images={"app:latest": "500Mi"} if random.random() < 0.5 else {},
    )


def any_pod(random, name, **more):
    return make_pod(
        name,
        namespace=random.choice(["default"] * 5 + ["other"]),
        requests={
            "cpu": random.choice(["0", "500m", "1", "3"]),
            "memory": random.choice(["0", "1Gi", "4Gi"]),
            GPU: random.choice(["0", "0", "1"]),
        },
        labels=random.choice(["", *["app=web"] * 3, "app=web, rev=1", "app=db"]),
        host_ports=random.sample(["80", "127.0.0.1:80", "443/UDP"], k=random.choice([0, 0, 1])),
        volumes=any_volumes(random),
        **{"affinity": any_pod_affinity(random) if random.random() < 0.4 else None} | more,
    )


def any_constraint(random):
    selector = random.choice([None, {}, *[{"matchLabels": {"app": "web"}}] * 4])
    return {
        "maxSkew": random.choice([1, 1, 2]),
        "topologyKey": random.choice([ZONE, HOSTNAME]),
        "whenUnsatisfiable": random.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selector,
        "minDomains": random.choice([None, 1, 3]),
        "nodeAffinityPolicy": random.choice([None, "Ignore"]),
        "nodeTaintsPolicy": random.choice([None, "Honor"]),
        "matchLabelKeys": random.choice([[], ["rev"]]),
    }


def any_affinity(random, names):
    disk = {"key": "disk", "operator": random.choice(["In", "NotIn"]), "values": ["ssd"]}
    name = {"key": "metadata.name", "operator": "In", "values": [random.choice(names)]}
    terms = [{"matchExpressions": [disk]}, {"matchFields": [name]}]
    chosen = random.sample(terms, k=random.choice([1, 2]))
    preferred = [{"weight": random.randint(1, 9), "preference": {"matchExpressions": [disk]}}]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": chosen},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


def any_term(random):
    app = {"key": "app", "operator": random.choice(["In", "NotIn"]), "values": ["web"]}
    expressions = random.choice([[app], [app], [{"key": "rev", "operator": "Exists"}], []])
    selectors = [{}, *[{"matchLabels": {"team": team}} for team in ("x", "y")]]
    return {
        "topologyKey": random.choice([ZONE, ZONE, HOSTNAME, "nowhere"]),
        "labelSelector": random.choice([None, *[{"matchExpressions": expressions}] * 4]),
        "namespaces": random.choice([[], [], ["other"]]),
        "namespaceSelector": random.choice([None, None, *selectors]),
    }


def any_pod_affinity(random):
    preferred = [
        {"weight": random.choice([1, 10]), "podAffinityTerm": any_term(random)}
        for _ in range(random.choice([0, 1, 2]))
    ]
    required = [any_term(random) for _ in range(random.choice([0, 0, 1, 2]))]
    return {
        random.choice(["podAffinity", "podAntiAffinity"]): {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


def any_incoming(random, names):
    more = {"affinity": {}}
    if random.random() < 0.4:
        more["node_selector"] = "disk=ssd"
    if random.random() < 0.4:
        more["affinity"] |= any_affinity(random, names)
    if random.random() < 0.6:
        more["affinity"] |= any_pod_affinity(random)
    if random.random() < 0.8:
        constraints = [any_constraint(random) for _ in range(random.choice([1, 2]))]
        more["topology_spread_constraints"] = constraints
    if random.random() < 0.1:
        more["node"] = random.choice(names)
    tolerations = random.choice([[], ["*"], ["a=b:NoSchedule"]])
    return any_pod(random, "incoming", tolerations=tolerations, **more)


class RandomCluster:
    """Nodes with pods, an incoming pod, and the changes of a what-if for each node."""

    def __init__(self, random):
        names = [f"n{i}" for i in range(random.randint(1, 6))]
        self.nodes = [any_node(random, name) for name in names]
        self.pods = [
            any_pod(random, f"p{i}", node=random.choice(names), terminating=random.random() < 0.1)
            for i in range(random.randint(0, 16))
        ]
        self.incoming = any_incoming(random, names)
        self.storage = any_storage(random, names)
        self.adding, self.removing = {}, {}
        for row, name in enumerate(names):
            there = [pod for pod in self.pods if pod.node_name == name]
            self.removing[row] = random.sample(there, k=random.randint(0, len(there)))
            new = [
                any_pod(random, f"new{row}-{i}", node=name) for i in range(random.choice([0, 1, 2]))
            ]
            self.adding[row] = new

    def columns(self, changed=None):
        """Return the columns, with the changes of one row applied."""
        columns = added_to({Resource.NAMESPACE: NAMESPACES}, columns_of(self.nodes, self.pods))
        for item in self.storage:
            columns.objects.put(RESOURCES[type(item)], item)
        if changed is not None:
            for pod in self.removing[changed]:
                columns.remove_pod(changed, pod.uid)
            for pod in self.adding[changed]:
                columns.add_pod(changed, pod)
        return columns

    def table(self, changed=None):
        return NodeTable(self.columns(changed))


clusters = st.builds(RandomCluster, st.integers(0, 2**32).map(Random))
