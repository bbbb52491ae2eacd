"""Whether an answer is one that a plugin may give, at the points where it is about one pod.

Each check returns the answer, or raises PluginError: what means nothing must not get into the queue
or the loop, where nobody could tell any more who said it.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeGuard, TypeVar

import msgspec

from scheduler.errors import PluginError
from scheduler.framework.effects import Assume, Effect, Patch, PostBinding, WaitUntil
from scheduler.framework.plugin import Plugin, Reserved
from scheduler.framework.rejection import Allow, Failure, Gate, PermitAnswer, Reject, Wait
from scheduler.model.fact import Resource
from scheduler.model.meta import ObjectMeta

R = TypeVar("R")


def validated(check: Callable[[str, object], R], plugin: Plugin, method: str) -> Callable[..., R]:
    """Return *method* of *plugin*, its answer held by *check*.

    It is made here, in a room in which a plugin may be broken off: above, it must not be.
    """
    question: Callable[..., object] = getattr(plugin, method)
    return lambda *asked: check(plugin.name, question(*asked))


def gate(plugin: str, answer: object) -> Gate | None:
    """Hold what ``pre_enqueue`` answered."""
    if answer is None or (isinstance(answer, Gate) and isinstance(answer.reason, str)):
        return answer
    return _refuse(plugin, "pre_enqueue", answer)


def reservation(plugin: str, answer: object) -> Reserved:
    """Hold what ``reserve`` answered."""
    match answer:
        case None | Reject(str()) | Failure(text=str()):
            return answer
        case str() | bytes():
            pass
        case Sequence() if all(map(_can_be_assumed, answer)):
            return answer
    return _refuse(plugin, "reserve", answer)


def permit(plugin: str, answer: object) -> PermitAnswer:
    """Hold what ``permit`` answered."""
    match answer:
        case Allow() | Reject(str()) | Wait(int() | float()):
            return answer
    return _refuse(plugin, "permit", answer)


def effects(plugin: str, answer: object) -> list[Effect]:
    """Hold what ``pre_bind`` answered."""
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
