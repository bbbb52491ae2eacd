"""How a plugin is asked: under the observer's eyes, and answerable for what it raises."""

from collections.abc import Callable
from typing import Any, TypeVar

from scheduler.errors import MalformedObject, PluginError
from scheduler.framework.observer import Observer

R = TypeVar("R")


def ask(point: str, plugin: str, observer: Observer, question: Callable[..., R], *args: Any) -> R:
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
