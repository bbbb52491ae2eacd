"""Calls of the plugin methods that are about one pod, with a check of what they answer.

Each function calls one method and returns its answer, or raises PluginError if the contract does
not allow such an answer: in the queue or the loop nobody could tell any more which plugin gave it.
They are passed to `invoke.call_plugin`, so that the check counts as the plugin's own time and may
be interrupted with it: it runs the plugin's code where an answer is an iterator or has a ``repr``.
"""

from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeGuard

import msgspec

from scheduler.errors import PluginError
from scheduler.framework.effects import Assume, Effect, Patch, PostBinding, WaitUntil
from scheduler.framework.plugin import (
    PermitPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    Reserved,
    ReservePlugin,
)
from scheduler.framework.rejection import Allow, Failure, Gate, PermitAnswer, Reject, Wait
from scheduler.model.fact import Resource
from scheduler.model.meta import ObjectMeta
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


def pre_enqueue(plugin: PreEnqueuePlugin, pod: Pod) -> Gate | None:
    """Call ``pre_enqueue``."""
    answer: object = plugin.pre_enqueue(pod)
    if answer is None or (isinstance(answer, Gate) and isinstance(answer.reason, str)):
        return answer
    return _refuse(plugin.name, "pre_enqueue", answer)


def reserve(plugin: ReservePlugin, pod: Pod, node: str, nodes: NodeTable) -> Reserved:
    """Call ``reserve``."""
    answer: object = plugin.reserve(pod, node, nodes)
    match answer:
        case None | Reject(str()) | Failure(text=str()):
            return answer
        case str() | bytes():
            pass  # sequences, too, and an empty one would pass for "assume nothing"
        case Sequence() if all(map(_can_be_assumed, answer)):
            return answer
    return _refuse(plugin.name, "reserve", answer)


def permit(plugin: PermitPlugin, pod: Pod, node: str, waiting: Sequence[Pod]) -> PermitAnswer:
    """Call ``permit``."""
    answer: object = plugin.permit(pod, node, waiting)
    match answer:
        case Allow() | Reject(str()) | Wait(int() | float()):
            return answer
    return _refuse(plugin.name, "permit", answer)


def pre_bind(plugin: PreBindPlugin, pod: Pod, node: str, nodes: NodeTable) -> list[Effect]:
    """Call ``pre_bind`` of a plugin whose ``pre_bind`` is a plain function."""
    answer: object = plugin.pre_bind(pod, node, nodes)
    if isinstance(answer, Iterator):  # a generator: the plugin's code runs here
        answer = list(answer)
    return effects(plugin.name, answer)


def effects(plugin: str, answer: object) -> list[Effect]:
    """Return *answer*, which ``pre_bind`` gave, as a list of effects."""
    try:
        found: list[object] = list(answer)  # type: ignore[call-overload]  # that is the question
    except TypeError:
        return _refuse(plugin, "pre_bind", answer)
    return [each if _can_be_done(each) else _refuse(plugin, "pre_bind", each) for each in found]


_RESOURCES = frozenset(Resource)


def _can_be_assumed(each: object) -> bool:
    return (
        isinstance(each, Assume)
        and each.resource in _RESOURCES
        and isinstance(getattr(each.item, "metadata", None), ObjectMeta)
    )


def _can_be_done(effect: object) -> TypeGuard[Effect]:
    match effect:
        case Patch(str(), dict(), None | dict()):
            return _is_json(effect.body) and _is_json(effect.undo)
        case WaitUntil(condition, int() | float(), str()):
            return callable(condition)
        case PostBinding(dict() as annotations):
            return all(isinstance(text, str) for pair in annotations.items() for text in pair)
    return False


def _is_json(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _refuse(plugin: str, method: str, answer: object) -> NoReturn:
    raise PluginError(plugin, f"answered {method} with {_shown(answer)}")


def _shown(answer: object) -> str:
    text = " ".join(repr(answer).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
