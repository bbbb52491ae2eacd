"""Two answers about one pod, brought to one form and compared.

What does not count as a difference:

- a plugin that skips is a plugin that refuses no node, or scores every node 0;
- upstream breaks ties in an order of its own, so that its choice has to be one of our best nodes;
- a node that soft spreading ignores is marked by -1 in our raw scores and by 0 in upstream's;
- the wording of errors (as opposed to refusals): both must have failed. So it is within a message,
  where preemption ended by one: of several pods that cannot be judged, which one is named depends
  on the order in which upstream took others off the node;
- the message about a pod whose own nominated node lies outside the nodes that pre-filters named:
  upstream judged that node beforehand, and adds what it found to a text about the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]

_ERROR: Final = "Error"
_WORDING: Final = re.compile(r'(?<=preemption: running)( "\w+" filter plugin): .*')
_NARROWED: Final = "node(s) didn't satisfy plugin(s) ["


@dataclass(frozen=True)
class Difference:
    """One thing on which the answers differ.

    Args:
        where: The part of the answer and the plugin, as in ``filter NodeResourcesFit``.
        upstream: What kube-scheduler says.
        ours: What we say.
    """

    where: str
    upstream: object
    ours: object

    def __str__(self) -> str:
        return f"{self.where}\n    upstream: {self.upstream}\n    ours:     {self.ours}"


def differences(
    upstream: Json, ours: Json, pod: Json, names: Sequence[str]
) -> Iterator[Difference]:
    """Yield every difference between two answers about *pod* over the nodes *names*."""
    yield from _judged_differently(upstream, ours)
    yield from _ended_differently(upstream, ours, pod, names)


def _judged_differently(upstream: Json, ours: Json) -> Iterator[Difference]:
    if "error" in upstream["outcome"] or "error" in ours["outcome"]:
        if not ("error" in upstream["outcome"] and "error" in ours["outcome"]):
            yield Difference("outcome", upstream["outcome"], ours["outcome"])
        return
    yield from _differing("preEnqueue", _gates(upstream), _gates(ours))
    yield from _differing("preFilter", _pre_filters(upstream), _pre_filters(ours))
    yield from _differing("filter", _filters(upstream), _filters(ours))
    if any(said["code"] == _ERROR for said in upstream.get("combined", ())):
        # The attempt goes on only where the pod's nominated node was tried before.
        if "combined" in ours:
            yield Difference("combined", "an error", ours["combined"])
        return
    if (theirs := _by_node(upstream.get("combined"))) != (own := _by_node(ours.get("combined"))):
        yield Difference("combined", *_only_differing(theirs, own))
    if upstream.get("feasible", []) != ours.get("feasible", []):
        yield Difference("feasible", upstream.get("feasible"), ours.get("feasible"))
        return
    yield from _differing("score", _scores(upstream), _scores(ours))
    if upstream.get("totals") != ours.get("totals"):
        yield Difference("totals", upstream.get("totals"), ours.get("totals"))
    if bool(upstream.get("scoreError")) != bool(ours.get("scoreError")):
        yield Difference("scoreError", upstream.get("scoreError"), ours.get("scoreError"))


def _ended_differently(
    upstream: Json, ours: Json, pod: Json, names: Sequence[str]
) -> Iterator[Difference]:
    """Yield how the cycles end differently: other messages, or a host that is not a best one."""
    theirs, own = upstream["outcome"], ours["outcome"]
    if "error" in theirs or "error" in own:
        return
    if "host" in theirs and "host" in own:
        best = best_nodes(ours, names)
        hosts = {theirs["host"], own["host"]}
        if len(hosts) > 1 and not hosts <= best:
            yield Difference("host", theirs["host"], f"{own['host']} of {sorted(best)}")
    elif _without_wording(theirs) != _without_wording(own) and not _tells_of_nominee(
        theirs, own, pod
    ):
        yield Difference("outcome", theirs, own)


def _without_wording(outcome: Json) -> Json:
    if "message" not in outcome:
        return outcome
    return {**outcome, "message": _WORDING.sub(r"\1", outcome["message"])}


def _tells_of_nominee(upstream: Json, ours: Json, pod: Json) -> bool:
    messages = upstream.get("message", "") + ours.get("message", "")
    return "nominatedNodeName" in pod.get("status", {}) and _NARROWED in messages


def best_nodes(answer: Json, names: Sequence[str]) -> set[str]:
    """Return the names of the nodes with the highest total; all that are left where none is."""
    feasible = answer.get("feasible") or []
    totals = answer.get("totals") or [0] * len(feasible)
    return {
        names[node] for node, total in zip(feasible, totals, strict=False) if total == max(totals)
    }


def _differing(
    part: str, upstream: Mapping[str, Any], ours: Mapping[str, Any]
) -> Iterator[Difference]:
    for plugin in sorted({*upstream, *ours}):
        theirs, own = upstream.get(plugin), ours.get(plugin)
        if theirs != own:
            if isinstance(theirs, dict) and isinstance(own, dict):
                theirs, own = _only_differing(theirs, own)
            yield Difference(f"{part} {plugin}", theirs, own)


def _only_differing(
    upstream: Mapping[Any, Any], ours: Mapping[Any, Any]
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    keys = [key for key in {**upstream, **ours} if upstream.get(key) != ours.get(key)]
    return (
        {key: upstream.get(key) for key in keys},
        {key: ours.get(key) for key in keys},
    )


def _gates(answer: Json) -> dict[str, Any]:
    said = answer.get("preEnqueue") or {}
    return {plugin: (gate["code"], gate["reasons"]) for plugin, gate in said.items()}


def _pre_filters(answer: Json) -> dict[str, Any]:
    """Refusals and narrowings; whether a plugin skips shows in what it refuses."""
    return {
        plugin: (said["code"], said.get("reasons", []), said.get("only", []))
        for plugin, said in (answer.get("preFilter") or {}).items()
        if said["code"] != "Skip"
    }


def _filters(answer: Json) -> dict[str, dict[int, Any]]:
    by_plugin = {plugin: _by_node(said) for plugin, said in (answer.get("filter") or {}).items()}
    return {plugin: said for plugin, said in by_plugin.items() if said}


def _by_node(verdicts: Sequence[Json] | None) -> dict[int, Any]:
    return {
        node: (said.get("plugin", ""), said["code"], _reasons(said))
        for said in verdicts or ()
        for node in said["nodes"]
    }


def _reasons(said: Json) -> list[str]:
    return [] if said["code"] == _ERROR else sorted(said.get("reasons", ()))


def _scores(answer: Json) -> dict[str, Json]:
    scores = answer.get("scores") or {}
    return {
        plugin: {**said, "raw": [max(raw, 0) for raw in said["raw"]]}
        if plugin == "PodTopologySpread"
        else said
        for plugin, said in scores.items()
        if any(said["weighted"])
    }
