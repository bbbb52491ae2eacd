"""Calls plugins: every call is measured by the observer, and its exceptions name the plugin.

`out_of_tree.stall_timer` interrupts a plugin only below a frame of this module.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from scheduler.errors import MalformedObject, PluginError
from scheduler.framework.observer import Observer

R = TypeVar("R")


def call_plugin(
    point: str, plugin: str, observer: Observer, question: Callable[..., R], *args: Any
) -> R:
    """Call *question*, a method of *plugin* or a function that calls one.

    Raises:
        PluginError: If the plugin raises anything. ``SystemExit`` is included: a library for
            command lines must not end the scheduler.
    """
    with observer.plugin(point, plugin):
        try:
            return question(*args)
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
