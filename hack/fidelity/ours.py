"""Our own answers, in the oracle's words.

Objects are decoded as from a watch, put into the cluster cache, and judged by the plugins of a
profile that is read from the same document: nothing here stands in for the scheduler's own code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from hack.fidelity.only_labelled import OnlyLabelled
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.config.default_plugins import DEFAULT_PLUGINS
from scheduler.cycle.comparing import difference
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.errors import SchedulerError
from scheduler.framework.decision import Bind, Clear, Park, Preempt, Retry
from scheduler.framework.filtering import PreFilterResult, filter_nodes, run_pre_filters
from scheduler.framework.observer import SILENT
from scheduler.framework.registry import Registry
from scheduler.framework.rejection import Failure, Only, Refused, Rejection, Skip
from scheduler.framework.scoring import score_nodes
from scheduler.framework.templates import Templates
from scheduler.kube.decode import ObjectDecoder
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.plugins import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.framework.diagnosis import Diagnosis
    from scheduler.framework.profile import Profile
    from scheduler.snapshot.node_table import NodeTable

Json = dict[str, Any]

SUCCESS: Final = "Success"
UNSCHEDULABLE: Final = "Unschedulable"
UNRESOLVABLE: Final = "UnschedulableAndUnresolvable"
ERROR: Final = "Error"

OURS_ALONE: Final = frozenset({"NodeTrust"})
"""Plugins that judge by what only a running scheduler has seen."""

_BY_KIND: Final = {
    row.resource.rpartition("/")[2]: row
    for row in WATCHED.values()
    if row.resource is not Resource.FAILED_POD
}


def compared_plugins() -> frozenset[str]:
    """Return the plugins that both sides have: the default ones, and one that narrows."""
    return frozenset(plugin.name for plugin in DEFAULT_PLUGINS) | {OnlyLabelled.name}


def build_profile(config: Json) -> Profile:
    """Build the profile of *config*, without plugins that kube-scheduler has no answer to."""
    registry = Registry(IN_TREE).with_plugins({OnlyLabelled.name: OnlyLabelled})
    resolved = read(msgspec.json.encode(config).decode()).resolve(registry.available)
    built = registry.build(resolved.profiles[0])
    return replace(
        built,
        pre_filter=tuple(each for each in built.pre_filter if each.name not in OURS_ALONE),
        filter=tuple(each for each in built.filter if each.name not in OURS_ALONE),
    )


class OurCluster:
    """The cluster of one question, as our cache holds it."""

    def __init__(self, config: Json, objects: Iterable[Json]) -> None:
        self.profile = build_profile(config)
        self._cache = ClusterCache()
        self._nominated: dict[str, list[Pod]] = {}
        self._templates = Templates()
        for document in objects:
            self._take(document)
        self.nodes = self._cache.view()

    def _take(self, document: Json) -> None:
        row = _BY_KIND.get(document["kind"])
        if row is None:
            return  # a kind that only a plugin reads which we do not have
        decoded = decode(document)
        if isinstance(decoded, Node):
            self._cache.add_node(decoded)
        elif not isinstance(decoded, Pod):
            self._cache.put(row.resource, decoded)
        elif decoded.node_name:
            self._cache.add_pod(decoded)
        elif decoded.nominated_node:
            self._nominated.setdefault(decoded.nominated_node, []).append(decoded)

    def judge(self, document: Json) -> Json:
        """Answer about one pod as the oracle does."""
        pod = decode(document)
        assert isinstance(pod, Pod)
        if pod.malformed:
            return {"outcome": {"error": pod.malformed}}
        return {
            "preEnqueue": self._gates(pod),
            "outcome": self._decide(pod),
            **self._separately(pod),
            **self._together(pod),
        }

    def _gates(self, pod: Pod) -> Json:
        """Ask who would keep the pod out of the queue; everything else is asked all the same."""
        asked = {plugin.name: plugin.pre_enqueue(pod) for plugin in self.profile.pre_enqueue}
        return {
            name: {"code": UNRESOLVABLE, "reasons": [gate.reason]}
            for name, gate in asked.items()
            if gate is not None
        }

    def _decide(self, pod: Pod) -> Json:
        attempt = Attempt(self.profile, pod, self.nodes, self._nominated)
        decision = decide(attempt)
        # And as for further pods of its template: from the second one on, answers are kept.
        for _ in range(3):
            kept = decide(replace(attempt, templates=self._templates))
            assert not (differs := difference(kept, decision)), f"{pod.key}: {differs}"
        match decision:
            case Bind(node=node):
                return {"host": node}
            case Preempt(diagnosis=diagnosis, node=node):
                return {**_refusal(diagnosis), "nominates": node}
            case Park(diagnosis=diagnosis, nomination=nomination):
                cleared = {"nominates": ""} if isinstance(nomination, Clear) else {}
                return {**_refusal(diagnosis), **cleared}
            case Retry(message=message):
                return {"error": message}

    def _separately(self, pod: Pod) -> Json:
        """Ask each plugin by itself about every node."""
        pre_filter: Json = {}
        silent = set()
        for plugin in self.profile.pre_filter:
            answer = plugin.pre_filter(pod, self.nodes)
            if answer is not None:
                pre_filter[plugin.name] = _pre_filter_verdict(answer)
            if answer is not None and not isinstance(answer, Only):
                silent.add(plugin.name)
        found = {
            plugin.name: _verdicts(plugin.filter(pod, self.nodes), self.nodes)
            for plugin in self.profile.filter
            if plugin.name not in silent
        }
        return {"preFilter": pre_filter, "filter": found}

    def _together(self, pod: Pod) -> Json:
        """Run all plugins, and score the nodes that are left; errors are part of the outcome."""
        try:
            return self._combined(pod)
        except SchedulerError:
            return {}

    def _combined(self, pod: Pod) -> Json:
        narrowed = run_pre_filters(self.profile.pre_filter, pod, self.nodes, SILENT)
        if narrowed.refused is not None:
            return {}
        rows = {
            row: counted
            for name, pods in self._nominated.items()
            if (row := self.nodes.row_of(name)) is not None
            and (counted := [p for p in pods if p.priority >= pod.priority and p.uid != pod.uid])
        }
        everywhere = PreFilterResult(skipped=narrowed.skipped)
        filtered = filter_nodes(self.profile, everywhere, pod, self.nodes, rows, SILENT)
        refused: dict[int, dict[str, list[tuple[str, bool]]]] = {}
        for verdict in filtered.verdicts:
            for row in verdict.nodes.nonzero()[0].tolist():
                said = refused.setdefault(row, {}).setdefault(verdict.plugin, [])
                said.append((verdict.reason, bool(verdict.resolvable[row])))
        combined = [
            {"plugin": plugin, **_summed(said), "nodes": [row]}
            for row, by_plugin in refused.items()
            for plugin, said in list(by_plugin.items())[:1]
        ]
        feasible = filtered.feasible
        if narrowed.only is not None:
            feasible = feasible & narrowed.only
        return {
            "combined": combined,
            "feasible": feasible.nonzero()[0].tolist(),
            **self._scores(pod, feasible),
        }

    def _scores(self, pod: Pod, feasible: np.typing.NDArray[np.bool_]) -> Json:
        if not feasible.any():
            return {}
        try:
            scored = score_nodes(self.profile, pod, self.nodes.select(feasible), SILENT)
        except SchedulerError as error:
            return {"scoreError": str(error)}
        return {
            "totals": scored.totals.tolist(),
            "scores": {
                each.plugin: {
                    "raw": each.raw.tolist(),
                    "normalized": each.normalized.tolist(),
                    "weighted": each.weighted.tolist(),
                }
                for each in scored.by_plugin
            },
        }

    @property
    def names(self) -> list[str]:
        """The nodes' names, by row."""
        return list(self.nodes.names)


def _refusal(diagnosis: Diagnosis) -> Json:
    return {"message": diagnosis.message, "plugins": sorted(diagnosis.rejected_by)}


def decode(document: Json) -> Any:
    """Decode an object as from a watch."""
    row = _BY_KIND[document["kind"]]
    return ObjectDecoder(row).item(msgspec.Raw(msgspec.json.encode(document)))


def _pre_filter_verdict(answer: object) -> Json:
    match answer:
        case Skip():
            return {"code": "Skip"}
        case Only(names=names):
            return {"code": SUCCESS, "only": sorted(names)}
        case Refused(reason=reason, resolvable=resolvable):
            return {"code": UNSCHEDULABLE if resolvable else UNRESOLVABLE, "reasons": [reason]}
        case Failure(text=text):
            return {"code": ERROR, "reasons": [text]}
    raise AssertionError(f"not an answer of pre-filter: {answer}")


def _verdicts(said: Iterable[Rejection | Failure], nodes: NodeTable) -> list[Json]:
    by_row: dict[int, list[tuple[str, bool]]] = {}
    failed: list[Json] = []
    for each in said:
        rows: Sequence[int] = each.nodes.nonzero()[0].tolist()
        if isinstance(each, Failure):
            failed += [{"code": ERROR, "reasons": [each.text], "nodes": list(rows)}]
            continue
        resolvable = np.broadcast_to(each.resolvable, len(nodes))
        for row in rows:
            by_row.setdefault(row, []).append((each.reason, bool(resolvable[row])))
    return failed + [{**_summed(reasons), "nodes": [row]} for row, reasons in by_row.items()]


def _summed(said: Sequence[tuple[str, bool]]) -> Mapping[str, Any]:
    """Several reasons of one plugin for one node: beyond help if one of them is."""
    resolvable = all(helps for _, helps in said)
    return {
        "code": UNSCHEDULABLE if resolvable else UNRESOLVABLE,
        "reasons": sorted(reason for reason, _ in said),
    }
