"""What a search for victims remembers equals what it would find out anew, whatever happens."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from hack.fidelity.full_clusters import make_full_cluster
from hack.fidelity.ours import decode
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Bind, Decision, Preempt
from scheduler.framework.profile import Profile
from scheduler.framework.templates import Templates
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import Pod
from scheduler.plugins import NodeResourcesFit
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.queue.nominator import Nominator
from scheduler.testing import make_node, make_pod
from scheduler.testing.harness import bare_profile
from tests.unit.plugins.preempting import FILTERS, HIGH, Counts, budget

STEPS = 80


def candidates(decision: Decision) -> list[tuple[str, list[str], int]]:
    if not isinstance(decision, Preempt):
        return []
    return [
        (each.node, [victim.uid for victim in each.victims], each.pdb_violations)
        for each in decision.candidates
    ]


class FullCluster:
    """Decides about preemptors of few templates, with what is remembered and without."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.cache = ClusterCache()
        self.nominator = Nominator()
        self.templates = Templates()
        self.under_way: list[tuple[Pod, Preempt]] = []

    def decide(self, pod: Pod) -> Decision:
        nominated = self.nominator.pods_on.copy()
        if node := self.nominator.node_of.get(pod.uid, ""):
            pod = pod.nominated_to(node)
        attempt = Attempt(self.profile, pod, self.cache.view(), nominated)
        cold = decide(attempt)
        warm = decide(replace(attempt, templates=self.templates))
        assert difference(warm, cold) == ""
        assert candidates(warm) == candidates(cold)
        return cold

    def preempt(self, pod: Pod) -> Preempt:
        """Nominate the pod; its victims stay until `evict`."""
        decision = self.decide(pod)
        assert isinstance(decision, Preempt)
        self.nominate(pod, decision)
        return decision

    def nominate(self, pod: Pod, decision: Preempt) -> None:
        self.nominator.add(pod.nominated_to(decision.node))
        self.under_way.append((pod, decision))

    def evict(self, index: int) -> None:
        """Remove the victims of a preemption, and decide about its pod again."""
        pod, decision = self.under_way.pop(index)
        for victim in decision.victims:
            if self.cache.pod(victim.uid) is not None:
                self.cache.remove_pod(victim.uid)
        again = self.decide(pod)
        if isinstance(again, Bind):
            self.nominator.delete(pod.uid, placed_on=again.node)
            self.cache.assume(pod, again.node)
        elif isinstance(again, Preempt):
            self.nominate(pod, again)


class History(FullCluster):
    """A full cluster to which random things happen."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        super().__init__(bare_profile(*(plugin() for plugin in FILTERS), DefaultPreemption()))
        self.made = make_full_cluster(seed, 0)
        self.later = make_full_cluster(seed, 1)
        self.serial = 0
        for document in self.made.objects:
            self.take(document)

    def take(self, document: dict[str, Any]) -> None:
        item = decode(document)
        if isinstance(item, Node):
            self.cache.add_node(item)
        elif isinstance(item, PodDisruptionBudget):
            self.cache.put(Resource.POD_DISRUPTION_BUDGET, item)
        elif isinstance(item, Pod) and item.node_name:
            self.cache.add_pod(item)
        elif isinstance(item, Pod):
            self.nominator.add(item)

    def another(self, document: dict[str, Any]) -> Pod:
        self.serial += 1
        named = {"name": f"pod-{self.serial}", "uid": f"uid-{self.serial}"}
        pod = decode({**document, "metadata": document["metadata"] | named})
        assert isinstance(pod, Pod)
        return pod

    def come(self) -> None:
        pod = self.another(self.dice.choice(self.made.pods[:2]))
        decision = self.decide(pod)
        if isinstance(decision, Preempt):
            self.nominate(pod, decision)
        elif isinstance(decision, Bind):
            self.cache.assume(pod, decision.node)

    def end(self) -> None:
        if self.under_way:
            self.evict(self.dice.randrange(len(self.under_way)))

    def fill(self) -> None:
        running = [each for each in self.made.objects if each.get("spec", {}).get("nodeName")]
        if running:
            self.cache.add_pod(self.another(self.dice.choice(running)))

    def change_pod(self) -> None:
        pods = list(self.cache.added())
        if pods:
            pod = self.dice.choice(pods)
            status = msgspec.structs.replace(pod.status, start_time="2026-02-01T00:00:00Z")
            self.cache.add_pod(msgspec.structs.replace(pod, status=status))

    def change_node(self) -> None:
        node, other = self.dice.choices(list(self.cache.nodes()), k=2)
        chance = self.dice.random()
        if chance < 0.2:
            self.serial += 1
            meta = msgspec.structs.replace(node.metadata, name=f"node-{self.serial}")
            self.cache.add_node(msgspec.structs.replace(node, metadata=meta))
        elif chance < 0.3 and len(list(self.cache.nodes())) > 2:
            self.cache.remove_node(node.name)
        elif chance < 0.6:
            self.cache.update_node(msgspec.structs.replace(node, spec=other.spec))
        else:
            self.cache.update_node(msgspec.structs.replace(node, status=other.status))

    def change_budget(self) -> None:
        budgets = [
            each
            for each in (*self.made.objects, *self.later.objects)
            if each["kind"] == "PodDisruptionBudget"
        ]
        if budgets:
            self.take(self.dice.choice(budgets))

    def run(self) -> None:
        happenings = {
            self.come: 8,
            self.end: 5,
            self.fill: 3,
            self.change_pod: 1,
            self.change_node: 1,
            self.change_budget: 1,
        }
        for _ in range(STEPS):
            self.dice.choices(list(happenings), list(happenings.values()))[0]()


@pytest.mark.parametrize("seed", range(40))
def test_remembered_candidates_equal_those_found_anew(seed):
    History(seed).run()


# What is tried again.

NODES = 20


def full_cluster(*filters):
    """Nodes with two pods each, and room for two."""
    cluster = FullCluster(bare_profile(*filters, NodeResourcesFit(), DefaultPreemption()))
    for number in range(NODES):
        cluster.cache.add_node(make_node(f"node-{number}", allocatable={"cpu": "2", "pods": "9"}))
        for name in ("a", "b"):
            cluster.cache.add_pod(
                make_pod(f"{name}-{number}", requests={"cpu": "1"}, node=f"node-{number}")
            )
    return cluster


def preemptor(name):
    return make_pod(name, requests={"cpu": "2"}, priority=HIGH)


def rows_tried(cluster, counts, pod):
    """Return how many rows of what-if tables filters get without memory, and with it."""
    nominated = cluster.nominator.pods_on.copy()
    attempt = Attempt(cluster.profile, pod, cluster.cache.view(), nominated)
    numbers = []
    for templates in (None, cluster.templates):
        counts.rows = 0
        decide(replace(attempt, templates=templates))
        numbers.append(counts.rows)
    return numbers


def test_only_rows_that_have_changed_are_tried_again():
    cluster = full_cluster(counts := Counts())
    cluster.preempt(preemptor("first")), cluster.preempt(preemptor("second"))

    fresh, kept = rows_tried(cluster, counts, preemptor("third"))

    assert fresh > 2 * NODES
    # The node with the new nomination: as it is, and without its potential victims.
    assert 0 < kept <= 4


def test_a_budget_that_changes_lets_all_rows_be_tried_again():
    cluster = full_cluster(counts := Counts())
    cluster.preempt(preemptor("first")), cluster.preempt(preemptor("second"))
    cluster.cache.put(Resource.POD_DISRUPTION_BUDGET, budget(allowed=1))

    fresh, kept = rows_tried(cluster, counts, preemptor("third"))

    assert fresh >= kept > NODES


def test_a_candidate_is_kept_no_longer_than_its_victims():
    """It is kept with the list of potential victims, which goes as soon as one of them goes."""
    cluster = full_cluster()
    for name in ("first", "second"):
        cluster.preempt(preemptor(name))
    node = cluster.under_way[1][1].node
    row = np.array([cluster.cache.view().row_of(node)])
    (before,) = cluster.cache.view().potential_victims(row, HIGH)

    cluster.evict(1)

    (after,) = cluster.cache.view().potential_victims(row, HIGH)
    assert before.found
    assert not after.found
