"""Extenders: web services that are asked beside the plugins, as questions and answers in bytes.

Nothing is sent here. The cycle yields Questions, somebody above the line sends them, and the cycle
reads the answers. Extenders that must not fail are asked first, in the order of the configuration.

Where an extender returns whole nodes, only their names count: the nodes that are scored afterwards
are ours, with their pods. (Upstream scores what the extender sent, as if it were empty.)

Source: ``pkg/scheduler/extender.go`` and ``kube-scheduler/extender/v1/types.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.config.document import Extender
from scheduler.errors import SchedulerError
from scheduler.framework.diagnosis import Filtered, Verdict
from scheduler.framework.rejection import MAX_NODE_SCORE, Candidate, NodeMask, Scores
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

EXTENDER: Final = "Extender"
"""Under this name extenders appear among the plugins that rejected a pod."""

_EXTENDER_SCORE_MAXIMUM: Final = 10
_SCALE: Final = MAX_NODE_SCORE // _EXTENDER_SCORE_MAXIMUM
_encode: Final = msgspec.json.Encoder().encode


class ExtenderError(SchedulerError):
    """An extender that must not fail has failed: the attempt ends."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to one extender."""

    extender: Extender
    verb: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions that may be asked all at once; answers are expected in the same order."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """What it said."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why nothing usable came back."""

    why: str


Answer = Answered | Unanswered


class ExtenderVerdicts:
    """Stands among the plugins for what extenders reject.

    They never say what could help a pod that they refused, so anything may.
    """

    name = EXTENDER

    def filter(self, pod: Pod, nodes: NodeTable) -> tuple[()]:  # noqa: ARG002 - speaks for others
        """Refuse nothing; the extenders do."""
        return ()


def in_turn(extenders: Sequence[Extender]) -> tuple[Extender, ...]:
    """Return *extenders* in the order in which they are asked."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def is_interested(extender: Extender, pod: Pod) -> bool:
    """Tell whether *extender* is asked about *pod* at all."""
    managed = {resource.name for resource in extender.managed_resources}
    if not managed:
        return True
    return any(
        not managed.isdisjoint(container.resources.requests.keys())
        or not managed.isdisjoint(container.resources.limits.keys())
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    )


def filter_question(extender: Extender, pod: Pod, nodes: NodeTable) -> Ask:
    """Ask which of *nodes* can take *pod*."""
    return Ask(extender, extender.filter_verb, _arguments(extender, pod, nodes))


def prioritize_question(extender: Extender, pod: Pod, nodes: NodeTable) -> Ask:
    """Ask how good each of *nodes* is for *pod*."""
    return Ask(extender, extender.prioritize_verb, _arguments(extender, pod, nodes))


def bind_question(extender: Extender, pod: Pod, node: str) -> Ask:
    """Ask to bind *pod* to *node*."""
    body = {
        "PodName": pod.name,
        "PodNamespace": pod.namespace,
        "PodUID": pod.uid,
        "Node": node,
    }
    return Ask(extender, extender.bind_verb, _encode(body))


def preempt_question(extender: Extender, pod: Pod, candidates: Sequence[Candidate]) -> Ask:
    """Ask which of *candidates* may make room for *pod*, and by which victims."""
    whole = None
    if not extender.node_cache_capable:
        whole = {
            each.node: {
                "Pods": [msgspec.Raw(victim.raw) for victim in each.victims],
                "NumPDBViolations": each.pdb_violations,
            }
            for each in candidates
        }
    named = {
        each.node: {
            "Pods": [{"UID": victim.uid} for victim in each.victims],
            "NumPDBViolations": each.pdb_violations,
        }
        for each in candidates
    }
    body = {
        "Pod": msgspec.Raw(pod.raw),
        "NodeNameToVictims": whole,
        "NodeNameToMetaVictims": named if whole is None else None,
    }
    return Ask(extender, extender.preempt_verb, _encode(body))


def _arguments(extender: Extender, pod: Pod, nodes: NodeTable) -> bytes:
    names = list(nodes.names)
    whole = None
    if not extender.node_cache_capable:
        items = [msgspec.Raw(nodes.node(row).raw) for row in range(len(nodes))]
        whole = {"metadata": {}, "items": items}
    return _encode(
        {
            "Pod": msgspec.Raw(pod.raw),
            "Nodes": whole,
            "NodeNames": names if extender.node_cache_capable else None,
        }
    )


def read_filter(ask: Ask, answer: Answer, nodes: NodeTable) -> Filtered:
    """Read which of *nodes* the extender left.

    Raises:
        ExtenderError: If it failed, and is not ignorable.
    """
    result, why = _read(ask, answer)
    why = why or str(result.get("error") or "")
    if not why:
        kept, why = _kept(ask, result, nodes)
    if why:
        if ask.extender.ignorable:
            return Filtered(np.ones(len(nodes), dtype=np.bool_), ())
        raise ExtenderError(why)
    hopeless: Mapping[str, str] = result.get("failedandunresolvablenodes") or {}
    failed = {
        name: text
        for name, text in (result.get("failednodes") or {}).items()
        if name not in hopeless
    }
    silent = ~kept & ~nodes.named((*hopeless, *failed))
    verdicts = (
        # Upstream counts a node that vanished without a word as refused for no reason.
        *([Verdict(EXTENDER, "", silent, np.zeros_like(silent))] if silent.any() else ()),
        *_verdicts(hopeless, nodes, resolvable=False),
        *_verdicts(failed, nodes, resolvable=True),
    )
    return Filtered(kept, verdicts)


def _kept(ask: Ask, result: Mapping[str, Any], nodes: NodeTable) -> tuple[NodeMask, str]:
    """Return the rows that survive, or why that cannot be told."""
    names = result.get("nodenames") if ask.extender.node_cache_capable else None
    if names is None:
        items = (result.get("nodes") or {}).get("items") or ()
        names = [item.get("metadata", {}).get("name", "") for item in items]
    known = set(nodes.names)
    for name in names:
        if name not in known:
            return np.zeros(len(nodes), dtype=np.bool_), (
                f'extender "{ask.extender.url_prefix}" claims a filtered node "{name}" '
                "which is not found in the input node list"
            )
    return nodes.named(names), ""


def _verdicts(
    failed: Mapping[str, str], nodes: NodeTable, *, resolvable: bool
) -> Sequence[Verdict]:
    by_text: dict[str, list[str]] = {}
    for name, text in failed.items():
        by_text.setdefault(text, []).append(name)
    found = []
    for text, names in by_text.items():
        mask = nodes.named(names)
        found.append(Verdict(EXTENDER, text, mask, mask & resolvable))
    return found


def read_scores(ask: Ask, answer: Answer, nodes: NodeTable) -> Scores:
    """Read the extender's scores, weighted and on our scale; a failure counts for nothing."""
    scores = np.zeros(len(nodes), dtype=np.int64)
    if isinstance(answer, Unanswered):
        return scores
    try:
        listed = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        return scores
    for entry in listed if isinstance(listed, list) else ():
        fields = _folded(entry)
        row = nodes.row_of(str(fields.get("host", "")))
        if row is not None and isinstance(score := fields.get("score"), int):
            scores[row] = score * ask.extender.weight * _SCALE
    return scores


def read_bind(ask: Ask, answer: Answer) -> str:
    """Return why the extender did not bind the pod; empty where it did."""
    result, why = _read(ask, answer)
    return why or str(result.get("error") or "")


def read_preempt(
    ask: Ask, answer: Answer, nodes: NodeTable, candidates: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Read which of *candidates* the extender left, with which victims.

    Raises:
        ExtenderError: If it failed, and is not ignorable.
    """
    result, why = _read(ask, answer)
    found: list[Candidate] = []
    for node, victims in (result.get("nodenametometavictims") or {}).items():
        candidate, problem = _named(ask, node, _folded(victims), nodes)
        found.append(candidate)
        why = why or problem
    if why and ask.extender.ignorable:
        return tuple(candidates)
    kept = [each for each in found if each.victims]
    if not why and len(kept) < len(found) and not ask.extender.ignorable:
        empty = next(each.node for each in found if not each.victims)
        why = f'expected at least one victim pod on node "{empty}"'
    if why:
        raise ExtenderError(why)
    # The server lists nodes in any order; equal ones are told apart by ours.
    order = {each.node: index for index, each in enumerate(candidates)}
    return tuple(sorted(kept, key=lambda each: order.get(each.node, len(order))))


def _named(
    ask: Ask, node: str, victims: Mapping[str, Any], nodes: NodeTable
) -> tuple[Candidate, str]:
    """Return the candidate that an extender speaks of, or why there is none like that."""
    url, row = ask.extender.url_prefix, nodes.row_of(node)
    if row is None:
        return Candidate(node, ()), f"extender: {url} claims to preempt on unknown node {node}"
    there = {pod.uid: pod for pod in nodes.pods_on(row)}
    uids = [PodUid(str(_folded(each).get("uid", ""))) for each in victims.get("pods") or ()]
    pods = tuple(there[uid] for uid in uids if uid in there)
    missing = next((uid for uid in uids if uid not in there), None)
    problem = (
        ""
        if missing is None
        else (
            f"extender: {url} claims to preempt pod (UID: {missing}) on node: {node}, "
            "but the pod is not found on that node"
        )
    )
    return Candidate(node, pods, int(victims.get("numpdbviolations") or 0)), problem


def _read(ask: Ask, answer: Answer) -> tuple[Mapping[str, Any], str]:
    if isinstance(answer, Unanswered):
        return {}, answer.why
    try:
        return _folded(msgspec.json.decode(answer.body)), ""
    except msgspec.DecodeError as problem:
        return {}, f'extender "{ask.extender.url_prefix}" did not answer with JSON: {problem}'


def _folded(entry: object) -> Mapping[str, Any]:
    """Return *entry* with keys in lower case: Go reads them in any."""
    return {key.lower(): value for key, value in entry.items()} if isinstance(entry, dict) else {}
