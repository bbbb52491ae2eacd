"""Answers that are kept equal those that the plugins would give, whatever happens in between."""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from hack.fidelity.clusters import make_question
from hack.fidelity.ours import build_profile, decode
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Bind
from scheduler.framework.templates import Templates
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.trust import NODE_DISTRUST, distrust, owner_of
from scheduler.plugins.node_trust import NodeTrust

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS: Final = 60
RESOURCES: Final = {
    row.resource.rpartition("/")[2]: row.resource
    for row in WATCHED.values()
    if row.resource is not Resource.FAILED_POD
}


class History:
    """A cluster to which random things happen, and pods of few templates to decide about."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.question = make_question(seed, 0, pods=5)
        self.later = make_question(seed, 1, pods=1)
        profile, trust = build_profile(self.question.config), NodeTrust()
        self.profile = replace(
            profile, pre_filter=(*profile.pre_filter, trust), filter=(*profile.filter, trust)
        )
        self.cache = ClusterCache()
        self.nominated: dict[str, tuple[Pod, ...]] = {}
        self.templates = Templates()
        self.assumed: list[Pod] = []
        self.removed: list[Node] = []
        self.serial = 0
        for document in self.question.objects:
            self.take(document)

    def take(self, document: dict[str, Any]) -> None:
        item = decode(document)
        if isinstance(item, Node):
            self.cache.add_node(item)
        elif not isinstance(item, Pod):
            if document["kind"] in RESOURCES:
                self.cache.put(RESOURCES[document["kind"]], item)
        elif item.node_name:
            self.cache.add_pod(item)
        elif item.nominated_node:
            there = self.nominated.get(item.nominated_node, ())
            # As the queue does it: neither the mapping nor its values change afterwards.
            self.nominated = self.nominated | {item.nominated_node: (*there, item)}

    def another(self, document: dict[str, Any]) -> Pod:
        """Return a further pod of the template of *document*."""
        self.serial += 1
        meta = document["metadata"]
        name = {"name": f"{meta['name']}-{self.serial}", "uid": f"uid-{self.serial}"}
        pod = decode({**document, "metadata": meta | name})
        assert isinstance(pod, Pod)
        return pod

    def decide(self) -> None:
        pod = self.another(self.dice.choice(self.question.pods))
        if pod.malformed or pod.node_name:
            return
        nominated = self.nominated if self.dice.random() < 0.7 else {}
        attempt = Attempt(self.profile, pod, self.cache.view(), nominated, seed=self.serial)
        cold = decide(attempt)
        warm = decide(replace(attempt, templates=self.templates))
        assert difference(warm, cold) == ""
        if isinstance(cold, Bind) and self.dice.random() < 0.8:
            self.assumed.append(self.cache.assume(pod, cold.node))

    def settle(self) -> None:
        """Confirm or forget an assumption."""
        if not self.assumed:
            return
        placed = self.assumed.pop(self.dice.randrange(len(self.assumed)))
        if self.dice.random() < 0.3:
            self.cache.forget(placed.uid)
        else:
            status = msgspec.structs.replace(placed.status, phase="Running")
            self.cache.add_pod(msgspec.structs.replace(placed, status=status))

    def change_pod(self) -> None:
        pods = list(self.cache.added())
        if not pods:
            return
        pod = self.dice.choice(pods)
        if self.dice.random() < 0.5:
            self.cache.remove_pod(pod.uid)
            return
        labels = self.dice.choice(({"app": "web"}, {}, pod.labels | {"more": "yes"}))
        terminating = self.dice.choice((None, "2026-01-01T00:00:00Z"))
        meta = msgspec.structs.replace(pod.metadata, labels=labels, deletion_timestamp=terminating)
        self.cache.add_pod(msgspec.structs.replace(pod, metadata=meta))

    def change_node(self) -> None:
        nodes = list(self.cache.nodes())
        if not nodes:
            return
        node, other = self.dice.choice(nodes), self.dice.choice(nodes)
        chance = self.dice.random()
        if chance < 0.15:
            self.cache.remove_node(node.name)
        elif chance < 0.3:
            meta = msgspec.structs.replace(node.metadata, labels=other.metadata.labels)
            self.cache.update_node(msgspec.structs.replace(node, metadata=meta))
        elif chance < 0.6:
            self.cache.update_node(msgspec.structs.replace(node, spec=other.spec))
        else:
            self.cache.update_node(msgspec.structs.replace(node, status=other.status))

    def scale(self) -> None:
        """Add a node like one that is there, or like one that was removed; or remove one."""
        nodes = list(self.cache.nodes())
        if nodes and self.dice.random() < 0.5:
            node = self.dice.choice(nodes)
            self.cache.remove_node(node.name)
            self.removed.append(node)
        elif nodes or self.removed:
            node = self.dice.choice(nodes + self.removed)
            self.serial += 1
            name = self.dice.choice((node.name, f"added-{self.serial}"))
            meta = msgspec.structs.replace(node.metadata, name=name, uid=f"uid-{self.serial}")
            self.cache.add_node(msgspec.structs.replace(node, metadata=meta))

    def distrust(self) -> None:
        """Distrust a node for the owner of a pod that comes next: of one pod, if it has none."""
        nodes = list(self.cache.nodes())
        if nodes:
            owner = owner_of(self.another(self.dice.choice(self.question.pods)))
            on_trial = self.dice.random() < 0.3
            item = distrust(owner, self.dice.choice(nodes).name, "are bad", on_trial=on_trial)
            self.cache.put(NODE_DISTRUST, item)
            self.serial -= 1

    def change_object(self) -> None:
        """Let anything of another cluster of the same kind come, or an object of this one go."""
        if self.dice.random() < 0.7:
            self.take(self.dice.choice(self.later.objects))
            return
        document = self.dice.choice(self.question.objects)
        item = decode(document)
        if not isinstance(item, Node | Pod) and document["kind"] in RESOURCES:
            self.cache.drop(RESOURCES[document["kind"]], item)

    def run(self) -> None:
        happenings: dict[Callable[[], None], int] = {
            self.decide: 8,
            self.settle: 3,
            self.change_pod: 2,
            self.change_node: 1,
            self.scale: 2,
            self.change_object: 2,
            self.distrust: 1,
        }
        for _ in range(STEPS):
            self.dice.choices(list(happenings), list(happenings.values()))[0]()
        self.cache.check_invariants()


@pytest.mark.parametrize("seed", range(40))
def test_kept_answers_equal_fresh_ones(seed: int) -> None:
    history = History(seed)

    history.run()

    assert history.templates.count, "no answer was kept"


# What is asked again.
