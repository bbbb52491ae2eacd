"""How a plugin is asked: under the observer's eyes, and answerable for what it raises."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from scheduler.errors import MalformedObject, PluginError
from scheduler.framework.observer import Observer

R = TypeVar("R")


def call_plugin(
    point: str, plugin: str, observer: Observer, question: Callable[..., R], *args: Any
) -> R:
    """Put *question* to *plugin*.

    Raises:
        PluginError: If the plugin raises anything, ``SystemExit`` included, with which a library
            for command lines would end the process: that is a bug of the plugin, or it met a pod
            that it cannot read.
    """
    with observer.plugin(point, plugin):
        try:
            return question(*args)
        except MalformedObject as problem:
            raise PluginError(plugin, f"cannot judge the pod: {problem}") from problem
        except PluginError:
            raise  # of a plugin that this one asked
        except (Exception, SystemExit) as bug:
            raise PluginError(plugin, f"raised {type(bug).__name__} in {point}: {bug}") from bug


@dataclass(frozen=True, slots=True)
class Steps(Awaitable[R]):
    """A coroutine of a plugin's, to be awaited: each step of it is a turn of its own.

    Awaiting raises what ``call_plugin`` raises; cancellation passes through to the coroutine and
    back.
    """

    point: str
    plugin: str
    observer: Observer
    coroutine: Coroutine[Any, Any, R]

    def __await__(self) -> Generator[Any, Any, R]:
        """Go on step by step, and wait in between for what the coroutine waits for."""
        step: Callable[[Any], Any] = self.coroutine.send
        given: object = None
        while True:
            ended, told = call_plugin(
                self.point, self.plugin, self.observer, self._advance, step, given
            )
            if ended:
                return told  # type: ignore[no-any-return]  # what the coroutine returned
            try:
                given = yield told
                step = self.coroutine.send
            except BaseException as problem:  # noqa: BLE001 - the coroutine may want to know
                given, step = problem, self.coroutine.throw

    def _advance(self, step: Callable[[Any], Any], given: object) -> tuple[bool, Any]:
        """Return whether the coroutine has ended, and what it returned or waits for."""
        try:
            told = step(given)
        except StopIteration as end:
            return True, end.value
        self.observer.paused(self.point, self.plugin)
        return False, told
