"""Calls plugins: every call is measured by the observer, and its exceptions name the plugin.

The functions below `call_plugin` are passed to it, one for each method that concerns one pod. They
check the method's answer, so that a wrong one is reported with the plugin's name. The check counts
as the plugin's own time and is interrupted with it: an iterator or a ``repr`` runs the plugin's
code.

`out_of_tree.stall_timer` interrupts a plugin only below a frame of this module.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard, TypeVar

import msgspec

from scheduler.errors import MalformedObject, PluginError
from scheduler.framework.effects import Assume, Effect, Patch, PostBinding, WaitUntil
from scheduler.framework.observer import Observer
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

R = TypeVar("R")


def call_plugin(
    point: str, plugin: str, observer: Observer, function: Callable[..., R], *args: Any
) -> R:
    """Call *function*, a method of *plugin* or a function that calls one.

    Raises:
        PluginError: If the plugin raises anything. ``SystemExit`` is included: a library for
            command lines must not end the scheduler.
    """
    with observer.plugin(point, plugin):
        try:
            return function(*args)
        except MalformedObject as problem:
            raise PluginError(plugin, f"cannot judge the pod: {problem}") from problem
        except PluginError:
            raise  # from a plugin that this one called: a post-filter plugin runs the filters
        except (Exception, SystemExit) as bug:
            raise PluginError(plugin, f"raised {type(bug).__name__} in {point}: {bug}") from bug


@dataclass(frozen=True, slots=True)
class CoroutineCall(Awaitable[R]):
    """Awaits a coroutine of a plugin; each of its steps is one ``call_plugin``.

    So the time in which it waits is not measured, and cannot count as a stall. Cancellation passes
    through to the coroutine and back.
    """

    point: str
    plugin: str
    observer: Observer
    coroutine: Coroutine[Any, Any, R]

    def __await__(self) -> Generator[Any, Any, R]:
        """Run the coroutine step by step, and wait in between for what it waits for."""
        step: Callable[[Any], Any] = self.coroutine.send
        given: object = None
        while True:
            ended, value = call_plugin(
                self.point, self.plugin, self.observer, self._advance, step, given
            )
            if ended:
                return value  # type: ignore[no-any-return]  # what the coroutine returned
            try:
                given = yield value
                step = self.coroutine.send
            except BaseException as problem:  # noqa: BLE001 - the coroutine may handle it
                given, step = problem, self.coroutine.throw

    def _advance(self, step: Callable[[Any], Any], given: object) -> tuple[bool, Any]:
        """Return whether the coroutine has ended, and what it returned or waits for."""
        try:
            value = step(given)
        except StopIteration as end:
            return True, end.value
        self.observer.paused(self.point, self.plugin)
        return False, value


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
            pass  # a text is a sequence too, and an empty one would mean "assume nothing"
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
        found: list[object] = list(answer)  # type: ignore[call-overload]  # a plugin may return anything
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
