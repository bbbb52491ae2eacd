"""Kept answers of plugins that look beyond a row equal those that they would give."""

from dataclasses import replace
from random import Random
from typing import Any, Final

import msgspec
import pytest

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework import kept_normal
from scheduler.framework.decision import Bind
from scheduler.framework.profile import Profile
from scheduler.framework.registry import Registry
from scheduler.framework.templates import Templates
from scheduler.kube.decode import ObjectChanged, ObjectDecoder
from scheduler.kube.watched import PODS
from scheduler.model.pod import Pod
from scheduler.plugins import IN_TREE
from scheduler.snapshot import labels as label_index
from scheduler.testing import make_node

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
NODES: Final = 30
STEPS: Final = 120
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
Spec = dict[str, Any]


def term(app: str, key: str) -> Spec:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def required(side: str, app: str, key: str) -> Spec:
    return {"affinity": {side: {REQUIRED: [term(app, key)]}}}


def preferred(side: str, app: str, key: str, weight: int = 10) -> Spec:
    wanted = [{"weight": weight, "podAffinityTerm": term(app, key)}]
    return {"affinity": {side: {PREFERRED: wanted}}}


def spread(action: str, app: str, key: str, skew: int = 1, **says: Any) -> Spec:
    more = {"maxSkew": skew, "whenUnsatisfiable": action, **says}
    return {"topologySpreadConstraints": [term(app, key) | more]}


KINDS: Final[tuple[tuple[str, Spec], ...]] = (
    ("web", spread("DoNotSchedule", "web", ZONE)),
    ("web", spread("DoNotSchedule", "web", HOST, 2)),
    ("web", spread("DoNotSchedule", "web", ZONE, minDomains=4)),
    ("web", spread("DoNotSchedule", "web", "rack", 3)),
    ("web", spread("ScheduleAnyway", "web", ZONE)),
    ("web", spread("ScheduleAnyway", "web", HOST)),
    ("web", spread("ScheduleAnyway", "web", ZONE, 3, nodeTaintsPolicy="Honor")),
    ("web", {"nodeSelector": {"disk": "fast"}} | spread("DoNotSchedule", "web", ZONE)),
    ("web", {"nodeSelector": {"disk": "fast"}} | spread("ScheduleAnyway", "web", ZONE)),
    ("web", required("podAffinity", "web", ZONE)),
    ("web", required("podAffinity", "db", ZONE)),
    ("web", required("podAntiAffinity", "db", ZONE)),
    ("db", required("podAntiAffinity", "db", HOST)),
    ("db", required("podAntiAffinity", "db", "rack")),
    ("db", preferred("podAffinity", "web", HOST)),
    ("db", preferred("podAntiAffinity", "db", HOST)),
    ("db", preferred("podAffinity", "db", ZONE)),
    ("db", preferred("podAntiAffinity", "web", "rack")),
    ("other", {}),
)


def profile() -> Profile:
    registry = Registry(IN_TREE)
    return registry.build(read().resolve(registry.available).profiles[0])


def pod_of(name: str, app: str, spec: Spec, node: str = "") -> Pod:
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}],
            "nodeName": node,
            **spec,
        },
    }
    line = msgspec.json.encode({"type": "ADDED", "object": document})
    event = ObjectDecoder(PODS).event(line)
    assert isinstance(event, ObjectChanged)
    pod = event.object
    assert isinstance(pod, Pod)
    return pod


def labels(number: int, *, rack: bool = True) -> str:
    found = f"{HOST}=node-{number},{ZONE}=zone-{number % 3},disk={('fast', 'slow')[number % 2]}"
    return found + (f",rack=rack-{number // 5}" if rack else "")


class History:
    """A cluster of a few zones and racks, to which pods come and go that others count."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.profile, self.templates, self.cache = profile(), Templates(), ClusterCache()
        self.kinds = self.dice.sample(KINDS, 3)
        self.serial = 0
        self.has_taints = self.dice.random() < 0.5
        for number in range(NODES):
            self.node(number)

    def node(self, number: int) -> None:
        has = self.dice.random
        text = labels(number, rack=has() < 0.9)
        if has() < 0.05:
            text = text.replace(f"{ZONE}=zone", f"{ZONE}=far")
        taints = "full=yes:NoSchedule" if self.has_taints and has() < 0.1 else ""
        node = make_node(f"node-{number}", labels=text, taints=taints, allocatable="4 cpu, 20 pods")
        if any(each.name == node.name for each in self.cache.nodes()):
            self.cache.update_node(node)
        else:
            self.cache.add_node(node)

    def decide(self) -> None:
        self.serial += 1
        app, spec = self.dice.choice(self.kinds)
        pod = pod_of(f"pod-{self.serial}", app, spec)
        attempt = Attempt(self.profile, pod, self.cache.view(), {}, seed=self.serial)
        cold = decide(attempt)
        warm = decide(replace(attempt, templates=self.templates))
        assert difference(warm, cold) == "", (spec, warm, cold)
        if isinstance(cold, Bind) and self.dice.random() < 0.9:
            self.cache.assume(pod, cold.node)

    def place(self) -> None:
        """Let a pod be where no decision about it was made."""
        self.serial += 1
        app, spec = self.dice.choice(KINDS)
        node = f"node-{self.dice.randrange(NODES)}"
        self.cache.add_pod(pod_of(f"pod-{self.serial}", app, spec, node))

    def remove(self) -> None:
        pods = [*self.cache.added(), *self.cache.assumed()]
        if pods:
            pod = self.dice.choice(pods)
            assumed = {each.uid for each in self.cache.assumed()}
            (self.cache.forget if pod.uid in assumed else self.cache.remove_pod)(pod.uid)

    def change_node(self) -> None:
        number = self.dice.randrange(NODES)
        if self.dice.random() < 0.5:
            self.cache.remove_node(f"node-{number}")
        else:
            self.node(number)

    def run(self) -> None:
        happenings = {
            self.decide: 60,
            self.place: 4,
            self.remove: 12,
            self.change_node: 1,
        }
        for _ in range(STEPS):
            self.dice.choices(list(happenings), list(happenings.values()))[0]()
        self.cache.check_invariants()


@pytest.mark.parametrize("few_rows", [4, 64])
@pytest.mark.parametrize("seed", range(12))
def test_kept_answers_by_domain_equal_fresh_ones(
    seed: int, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a domain with more than a few rows it is not told which have changed."""
    monkeypatch.setattr(label_index, "_FEW_ROWS", few_rows)
    monkeypatch.setattr(kept_normal, "_HIGHER_AT_MOST", few_rows)

    History(seed).run()
