"""Extenders: web services that filter, score, preempt and bind beside the plugins.

This module writes requests and reads responses, as bytes; it sends nothing. The cycle yields
ExtenderRequests, the loop sends them through `kube.extender_client`, and the cycle reads the
responses. Extenders that must not fail come first, in the order of the configuration.

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


_SCORE_LIMIT: Final = 2**62
"""Scores of this size and beyond are ignored: their sum with others could overflow int64."""


class ExtenderError(SchedulerError):
    """An extender that must not fail has failed: the attempt ends."""


@dataclass(frozen=True, slots=True)
class ExtenderRequest:
    """One HTTP request to one extender."""

    extender: Extender
    verb: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ExtenderRequests:
    """Requests that are sent all at once; responses come in the same order."""

    requests: tuple[ExtenderRequest, ...]


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """The body of a response with status 200."""

    body: bytes


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why the request got no response that can be used."""

    why: str


ExtenderResponse = ResponseBody | NoResponse


R = TypeVar("R", bound="_Result")

# The fields of responses. Their keys are in lower case, because Go decodes keys of any case: see
# `_with_lowercase_keys`.


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
    """The plugin that the queue sees as the one that rejected what extenders rejected.

    It has no ``requeue_on``: an extender cannot say what could help a pod that it rejected, so
    every event wakes that pod, as upstream's does.
    """

    name = EXTENDER

    def filter(self, pod: Pod, nodes: NodeTable) -> tuple[()]:  # noqa: ARG002 - extenders answer
        """Reject nothing: the extenders do."""
        return ()


def in_order(extenders: Sequence[Extender]) -> tuple[Extender, ...]:
    """Return *extenders* in the order in which requests are sent: ignorable ones last."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def is_interested(extender: Extender, pod: Pod) -> bool:
    """Tell whether *extender* handles *pod*.

    One with managed resources handles the pods that request or limit one of them; any other
    handles every pod.
    """
    managed = {resource.name for resource in extender.managed_resources}
    if not managed:
        return True
    return any(
        not managed.isdisjoint(container.resources.requests.keys())
        or not managed.isdisjoint(container.resources.limits.keys())
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    )


def filter_request(extender: Extender, pod: Pod, nodes: NodeTable) -> ExtenderRequest:
    """Return the request for the nodes that can take *pod*."""
    return ExtenderRequest(extender, extender.filter_verb, _arguments(extender, pod, nodes))


def prioritize_request(extender: Extender, pod: Pod, nodes: NodeTable) -> ExtenderRequest:
    """Return the request for a score of each of *nodes*."""
    return ExtenderRequest(extender, extender.prioritize_verb, _arguments(extender, pod, nodes))


def bind_request(extender: Extender, pod: Pod, node: str) -> ExtenderRequest:
    """Return the request to bind *pod* to *node*."""
    body = {
        "PodName": pod.name,
        "PodNamespace": pod.namespace,
        "PodUID": pod.uid,
        "Node": node,
    }
    return ExtenderRequest(extender, extender.bind_verb, _encode(body))


def preempt_request(
    extender: Extender, pod: Pod, candidates: Sequence[Candidate]
) -> ExtenderRequest:
    """Return the request for the *candidates* that the extender accepts, and their victims."""
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
    return ExtenderRequest(extender, extender.preempt_verb, _encode(body))


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


def read_filter(request: ExtenderRequest, response: ExtenderResponse, nodes: NodeTable) -> Filtered:
    """Return which of *nodes* passed the extender.

    Raises:
        ExtenderError: If it failed, and is not ignorable.
    """
    result, why = _read(request, response, _Filtered)
    if not why:
        kept, why = _rows_kept(request, result, nodes)
    if why:
        if request.extender.ignorable:
            return Filtered(np.ones(len(nodes), dtype=np.bool_), ())
        raise ExtenderError(why)
    hopeless = result.failedandunresolvablenodes
    failed = {name: text for name, text in result.failednodes.items() if name not in hopeless}
    unmentioned = ~kept & ~nodes.named((*hopeless, *failed))
    verdicts = (
        # A node that the extender neither kept nor named as failed: upstream rejects it without a
        # reason, so the message does not count it.
        *(
            [Verdict(EXTENDER, "", unmentioned, np.zeros_like(unmentioned))]
            if unmentioned.any()
            else ()
        ),
        *_verdicts(hopeless, nodes, resolvable=False),
        *_verdicts(failed, nodes, resolvable=True),
    )
    return Filtered(kept, verdicts)


def _rows_kept(
    request: ExtenderRequest, result: _Filtered, nodes: NodeTable
) -> tuple[NodeMask, str]:
    """Return the rows that passed, or why the response names none that we know."""
    names = result.nodenames if request.extender.node_cache_capable else None
    if names is None:
        items = (result.nodes.items if result.nodes else None) or ()
        names = tuple(item.metadata.name for item in items)
    known = set(nodes.names)
    for name in names:
        if name not in known:
            return np.zeros(len(nodes), dtype=np.bool_), (
                f'extender "{request.extender.url_prefix}" claims a filtered node "{name}" '
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


def read_scores(request: ExtenderRequest, response: ExtenderResponse, nodes: NodeTable) -> Scores:
    """Return the extender's scores, weighted and on our scale; zero where it failed.

    Upstream ignores an extender that fails to score as well: a worse node is better than none.
    """
    scores = np.zeros(len(nodes), dtype=np.int64)
    if isinstance(response, NoResponse):
        return scores
    try:
        listed = _decode_list(response.body)
        entries = [msgspec.convert(_with_lowercase_keys(entry), _Score) for entry in listed]
    except (msgspec.DecodeError, RecursionError):
        return scores
    for entry in entries:
        row = nodes.row_of(entry.host)
        score = entry.score * request.extender.weight * _SCALE
        if row is not None and abs(score) < _SCORE_LIMIT:
            scores[row] = score
    return scores


def read_bind(request: ExtenderRequest, response: ExtenderResponse) -> str:
    """Return why the extender did not bind the pod; empty where it did."""
    return _read(request, response, _Result)[1]


def read_preempt(
    request: ExtenderRequest,
    response: ExtenderResponse,
    nodes: NodeTable,
    candidates: Sequence[Candidate],
) -> tuple[Candidate, ...]:
    """Return the *candidates* that the extender accepts, with the victims it names.

    Raises:
        ExtenderError: If it failed, and is not ignorable.
    """
    result, why = _read(request, response, _Preempting)
    found: list[Candidate] = []
    for node, victims in result.nodenametometavictims.items():
        candidate, problem = _candidate_named(request, node, victims, nodes)
        found.append(candidate)
        why = why or problem
    if why and request.extender.ignorable:
        return tuple(candidates)
    kept = [each for each in found if each.victims]
    if not why and len(kept) < len(found) and not request.extender.ignorable:
        empty = next(each.node for each in found if not each.victims)
        why = f'expected at least one victim pod on node "{empty}"'
    if why:
        raise ExtenderError(why)
    # An extender may name nodes in any order. Among equal candidates the first wins, so the order
    # of the dry run is restored.
    order = {each.node: index for index, each in enumerate(candidates)}
    return tuple(sorted(kept, key=lambda each: order.get(each.node, len(order))))


def _candidate_named(
    request: ExtenderRequest, node: str, entry: Mapping[str, Any] | None, nodes: NodeTable
) -> tuple[Candidate, str]:
    """Return the candidate that an extender names, or why it does not exist."""
    url, row = request.extender.url_prefix, nodes.row_of(node)
    if row is None:
        return Candidate(node, ()), f"extender: {url} claims to preempt on unknown node {node}"
    try:
        victims = msgspec.convert(_with_lowercase_keys(entry), _Victims)
        named = [msgspec.convert(_with_lowercase_keys(each), _Victim) for each in victims.pods]
    except msgspec.ValidationError as problem:
        return Candidate(node, ()), _unreadable(request, problem)
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


def _read(request: ExtenderRequest, response: ExtenderResponse, kind: type[R]) -> tuple[R, str]:
    """Return the decoded response, and why it cannot be used; empty where it can."""
    if isinstance(response, NoResponse):
        return kind(), response.why
    try:
        result = msgspec.convert(_with_lowercase_keys(_decode_any(response.body)), kind)
    except (msgspec.DecodeError, RecursionError) as problem:
        return kind(), _unreadable(request, problem)
    return result, result.error


def _unreadable(request: ExtenderRequest, problem: Exception) -> str:
    return f'extender "{request.extender.url_prefix}" gave an answer that cannot be read: {problem}'


def _with_lowercase_keys(entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return *entry* as Go reads it: keys in any case, and null for what is not there."""
    return {key.lower(): value for key, value in (entry or {}).items() if value is not None}
