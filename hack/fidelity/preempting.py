"""Our own preemption, asked about a cluster as the API server holds it.

Upstream's last word among equal nodes is chance, so all are kept that our search found equal: by
criteria that are written down here once more, from upstream's, and not taken from our plugin.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hack.fidelity.ours import decode
from hack.fidelity.words import HOSTNAME, ZONE
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Bind, Clear, Decision, Park, Preempt, Retry
from scheduler.framework.registry import Registry
from scheduler.framework.rejection import Candidate, Proposal, Refusal
from scheduler.framework.templates import Templates
from scheduler.kube.watched import WATCHED
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import compile_selector
from scheduler.plugins import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from scheduler.framework.diagnosis import Diagnosis
    from scheduler.framework.plugin import FilterQuestion, PostFilterPlugin
    from scheduler.framework.profile import Profile
    from scheduler.snapshot.node_table import NodeTable

Json = dict[str, Any]

CONFIG: Final[Json] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 100,
    # A pod that was rejected is not tried again for as long as a cluster lasts.
    "podInitialBackoffSeconds": 300,
    "podMaxBackoffSeconds": 300,
    "profiles": [
        {
            "schedulerName": "py-scheduler",
            "pluginConfig": [
                {
                    "name": "DefaultPreemption",
                    "args": {"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 1},
                }
            ],
        }
    ],
}
"""Both sides try every node."""

LEVELS: Final = (
    "fewest PDB violations",
    "lowest highest priority",
    "smallest sum of priorities",
    "fewest victims",
    "latest start",
    "chance",
)
_OFFSET: Final = 2**31
_NOW: Final = "2200-01-01T00:00:00Z"
_BUDGET: Final = "PodDisruptionBudget"
_BY_KIND: Final = {row.resource.rpartition("/")[2]: row.resource for row in WATCHED.values()}


@dataclass(frozen=True)
class Answer:
    """What we would do about one pod.

    Args:
        decision: The whole of it.
        nodes: The best nodes: to bind it to, or to evict pods on.
        candidates: All candidates for preemption, by node.
        level: What decided among them; empty where there was no choice.
    """

    decision: Decision
    nodes: frozenset[str] = frozenset()
    candidates: dict[str, Candidate] = field(default_factory=dict)
    level: str = ""

    @property
    def message(self) -> str:
        """What condition and event have to say."""
        match self.decision:
            case Preempt(diagnosis=diagnosis) | Park(diagnosis=diagnosis):
                return diagnosis.message
            case Retry(message=message):
                return message
        return ""

    def nominated(self, before: str, chosen: str) -> str:
        """Return the nomination that is left: *before* it was so, and the others *chosen* so."""
        match self.decision:
            case Preempt():
                return chosen
            case Park(nomination=Clear()) | Retry():
                return ""
        return before

    def harm(self) -> dict[str, tuple[set[str], int]]:
        """Return the victims on each node, and how many of them violate a budget."""
        return {
            node: ({pod.name for pod in each.victims}, each.pdb_violations)
            for node, each in self.candidates.items()
        }


def ask_ours(objects: Iterable[Json], preemptor: Json) -> Answer:
    """Decide about *preemptor* in a cluster of *objects*."""
    cache = ClusterCache()
    nominated: dict[str, list[Pod]] = {}
    for document in objects:
        decoded = decode(document)
        if isinstance(decoded, Node):
            cache.add_node(decoded)
        elif not isinstance(decoded, Pod):
            cache.put(_BY_KIND[document["kind"]], decoded)
        elif decoded.node_name:
            cache.add_pod(decoded)
        elif decoded.nominated_node:
            nominated.setdefault(decoded.nominated_node, []).append(decoded)
    pod = decode(preemptor)
    assert isinstance(pod, Pod)
    proposals: list[Proposal] = []
    attempt = Attempt(_profile(proposals), pod, cache.view(), nominated)
    decision = decide(attempt)
    templates = Templates()
    for _ in range(3):  # as for further pods of its template, about which answers are kept
        kept = decide(replace(attempt, templates=templates))
        assert not (differs := difference(kept, decision)), f"{pod.key}: {differs}"
    if isinstance(decision, Bind):
        return Answer(decision, frozenset(decision.ties))
    if not proposals:
        return Answer(decision)
    equals, level = _choose(proposals[0].candidates)
    found = {each.node: each for each in proposals[0].candidates}
    return Answer(decision, frozenset(each.node for each in equals), found, level)


def _profile(proposals: list[Proposal]) -> Profile:
    registry = Registry(IN_TREE)
    document = read(msgspec.json.encode(CONFIG).decode()).resolve(registry.available)
    profile = registry.build(document.profiles[0])
    recording = tuple(_Recording(each, proposals) for each in profile.post_filter)
    return replace(profile, post_filter=recording, pre_enqueue=())


class _Recording:
    """A post-filter plugin whose proposals are recorded."""

    def __init__(self, plugin: PostFilterPlugin, proposals: list[Proposal]) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._proposals = proposals

    def post_filter(
        self, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis, ask: FilterQuestion
    ) -> Generator[None, None, Proposal | Refusal]:
        """Ask the plugin, and note what it proposes."""
        found = self._plugin.post_filter(pod, nodes, diagnosis, ask)
        if not isinstance(found, Proposal | Refusal):
            found = yield from found
        if isinstance(found, Proposal):
            self._proposals.append(found)
        return found


def _choose(candidates: Sequence[Candidate]) -> tuple[Sequence[Candidate], str]:
    """Return the best candidates, and the criterion that left them over."""
    left, level = candidates, ""
    for name, criterion in zip(LEVELS[:-1], _CRITERIA, strict=True):
        best = min(map(criterion, left))
        fewer = [each for each in left if criterion(each) == best]
        if len(fewer) < len(left):
            left, level = fewer, name
    return left, LEVELS[-1] if len(left) > 1 else level


def _latest_start(candidate: Candidate) -> float:
    highest = max(pod.priority for pod in candidate.victims)
    return -min(_started(pod) for pod in candidate.victims if pod.priority == highest)


def _started(pod: Pod) -> float:
    return dt.datetime.fromisoformat(pod.status.start_time or _NOW).timestamp()


_CRITERIA: Final[tuple[Callable[[Candidate], float], ...]] = (
    lambda each: each.pdb_violations,
    lambda each: each.victims[0].priority,
    lambda each: sum(pod.priority + _OFFSET for pod in each.victims),
    lambda each: len(each.victims),
    _latest_start,
)


def kind(pod: Json) -> str:
    """Return what *pod* is but for its name: of pods that are alike, any may go."""
    metadata, status = pod["metadata"], pod.get("status", {})
    traits = (metadata["namespace"], metadata.get("labels"), pod["spec"], status.get("startTime"))
    return json.dumps(traits, sort_keys=True)


def upstream_miscounts(objects: Iterable[Json], preemptor: Json) -> bool:
    """Tell whether upstream may judge hard spread by wrong counts; docs/semantics.md tells of it.

    In a dry run it takes terminating pods off counts to which they were never added.
    """
    pod = decode(preemptor)
    assert isinstance(pod, Pod)
    constraints = [
        compile_selector(each.label_selector, "")
        for each in pod.spec.topology_spread_constraints
        if each.when_unsatisfiable == "DoNotSchedule"
    ]
    others = (decode(each) for each in objects if each["kind"] == "Pod")
    return any(
        other.terminating
        and other.priority < pod.priority
        and other.namespace == pod.namespace
        and selector.matches(other.labels)
        for other in others
        for selector in constraints
    )


# What a cluster would be without one thing.


def without(what: str, objects: Sequence[Json], preemptor: Json) -> tuple[list[Json], Json]:
    """Return the cluster and the pod without *what*, one of `MATTERS`."""
    pod = copy.deepcopy(preemptor)
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    left = list(objects)
    match what:
        case "hard spread over zones" | "hard spread over hosts":
            key = ZONE if what.endswith("zones") else HOSTNAME
            spec["topologySpreadConstraints"] = [
                each
                for each in spec.get("topologySpreadConstraints", ())
                if each["topologyKey"] != key or each["whenUnsatisfiable"] != "DoNotSchedule"
            ]
        case "required affinity":
            affinity.pop("podAffinity", None)
        case "required anti-affinity":
            affinity.pop("podAntiAffinity", None)
        case "anti-affinity of others":
            left = [_without_affinity(each) for each in objects]
        case "host ports":
            for container in spec["containers"]:
                container.pop("ports", None)
        case "nominated pods":
            left = [each for each in objects if not _is_nominee(each)]
        case "budgets":
            left = [each for each in objects if each["kind"] != _BUDGET]
        case _:
            raise AssertionError(what)
    return left, pod


MATTERS: Final = (
    "hard spread over zones",
    "hard spread over hosts",
    "required affinity",
    "required anti-affinity",
    "anti-affinity of others",
    "host ports",
    "nominated pods",
    "budgets",
)
"""What may change who has to go."""


def _without_affinity(document: Json) -> Json:
    if document["kind"] != "Pod":
        return document
    spec = {key: value for key, value in document["spec"].items() if key != "affinity"}
    return {**document, "spec": spec}


def _is_nominee(document: Json) -> bool:
    return (
        document["kind"] == "Pod"
        and not document["spec"].get("nodeName")
        and bool(document["status"].get("nominatedNodeName"))
    )
