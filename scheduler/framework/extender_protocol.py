"""Extenders: web services that are asked beside the plugins, as questions and answers in bytes.

Nothing is sent here. The cycle yields Questions, somebody above the line sends them, and the cycle
reads the answers. Extenders that must not fail are asked first, in the order of the configuration.

Where an extender returns whole nodes, only their names count: the nodes that are scored afterwards
are ours, with their pods. (Upstream scores what the extender sent, as if it were empty.)

Source: ``pkg/scheduler/extender.go`` and ``kube-scheduler/extender/v1/types.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

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


_COUNTED: Final = 2**62
"""No score is larger, that it may be added to others within int64."""


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


R = TypeVar("R", bound="_Result")

# What answers look like; keys are in lower case, as `_folded` leaves them.


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Nodes(msgspec.Struct, frozen=True):
    items: tuple[_Node, ...] | None = ()


class _Result(msgspec.Struct, frozen=True):
    error: str = ""


class _Filtered(_Result, frozen=True):
    nodenames: tuple[str, ...] | None = None
    nodes: _Nodes | None = None
    failednodes: dict[str, str] = {}
    failedandunresolvablenodes: dict[str, str] = {}


class _Preempting(_Result, frozen=True):
    nodenametometavictims: dict[str, dict[str, Any] | None] = {}


class _Victims(msgspec.Struct, frozen=True):
    pods: tuple[dict[str, Any] | None, ...] = ()
    numpdbviolations: int = 0


class _Victim(msgspec.Struct, frozen=True):
    uid: str = ""


class _Score(msgspec.Struct, frozen=True):
    host: str = ""
    score: int = 0


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
    result, why = _read(ask, answer, _Filtered)
    if not why:
        kept, why = _kept(ask, result, nodes)
    if why:
        if ask.extender.ignorable:
            return Filtered(np.ones(len(nodes), dtype=np.bool_), ())
        raise ExtenderError(why)
    hopeless = result.failedandunresolvablenodes
    failed = {name: text for name, text in result.failednodes.items() if name not in hopeless}
    silent = ~kept & ~nodes.named((*hopeless, *failed))
    verdicts = (
        # Upstream counts a node that vanished without a word as refused for no reason.
        *([Verdict(EXTENDER, "", silent, np.zeros_like(silent))] if silent.any() else ()),
        *_verdicts(hopeless, nodes, resolvable=False),
        *_verdicts(failed, nodes, resolvable=True),
    )
    return Filtered(kept, verdicts)


def _kept(ask: Ask, result: _Filtered, nodes: NodeTable) -> tuple[NodeMask, str]:
    """Return the rows that survive, or why that cannot be told."""
    names = result.nodenames if ask.extender.node_cache_capable else None
    if names is None:
        items = (result.nodes.items if result.nodes else None) or ()
        names = tuple(item.metadata.name for item in items)
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
        listed = _decode_list(answer.body)
        entries = [msgspec.convert(_folded(entry), _Score) for entry in listed]
    except (msgspec.DecodeError, RecursionError):
        return scores
    for entry in entries:
        row = nodes.row_of(entry.host)
        score = entry.score * ask.extender.weight * _SCALE
        if row is not None and abs(score) < _COUNTED:
            scores[row] = score
    return scores


def read_bind(ask: Ask, answer: Answer) -> str:
    """Return why the extender did not bind the pod; empty where it did."""
    return _read(ask, answer, _Result)[1]


def read_preempt(
    ask: Ask, answer: Answer, nodes: NodeTable, candidates: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Read which of *candidates* the extender left, with which victims.

    Raises:
        ExtenderError: If it failed, and is not ignorable.
    """
    result, why = _read(ask, answer, _Preempting)
    found: list[Candidate] = []
    for node, victims in result.nodenametometavictims.items():
        candidate, problem = _named(ask, node, victims, nodes)
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
    ask: Ask, node: str, said: Mapping[str, Any] | None, nodes: NodeTable
) -> tuple[Candidate, str]:
    """Return the candidate that an extender speaks of, or why there is none like that."""
    url, row = ask.extender.url_prefix, nodes.row_of(node)
    if row is None:
        return Candidate(node, ()), f"extender: {url} claims to preempt on unknown node {node}"
    try:
        victims = msgspec.convert(_folded(said), _Victims)
        named = [msgspec.convert(_folded(each), _Victim) for each in victims.pods]
    except msgspec.ValidationError as problem:
        return Candidate(node, ()), _unreadable(ask, problem)
    there = {pod.uid: pod for pod in nodes.pods_on(row)}
    uids = [PodUid(each.uid) for each in named]
    pods = tuple(there[uid] for uid in uids if uid in there)
    missing = next((uid for uid in uids if uid not in there), None)
    unknown = (
        ""
        if missing is None
        else (
            f"extender: {url} claims to preempt pod (UID: {missing}) on node: {node}, "
            "but the pod is not found on that node"
        )
    )
    return Candidate(node, pods, victims.numpdbviolations), unknown


_decode_any: Final = msgspec.json.Decoder(dict[str, Any] | None).decode
_decode_list: Final = msgspec.json.Decoder(tuple[dict[str, Any], ...]).decode


def _read(ask: Ask, answer: Answer, kind: type[R]) -> tuple[R, str]:
    """Return what the extender answered, and why that is of no use; empty where it is."""
    if isinstance(answer, Unanswered):
        return kind(), answer.why
    try:
        result = msgspec.convert(_folded(_decode_any(answer.body)), kind)
    except (msgspec.DecodeError, RecursionError) as problem:
        return kind(), _unreadable(ask, problem)
    return result, result.error


def _unreadable(ask: Ask, problem: Exception) -> str:
    return f'extender "{ask.extender.url_prefix}" gave an answer that cannot be read: {problem}'


def _folded(entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return *entry* as Go reads it: keys in any case, and null for what is not there."""
    return {key.lower(): value for key, value in (entry or {}).items() if value is not None}
