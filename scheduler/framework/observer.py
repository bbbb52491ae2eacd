"""How the pure rooms are measured without knowing who measures."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Ending = Callable[[str], None]
"""Says how a run ends, in the words of upstream's status codes; Success where nothing is said."""


class Observer(Protocol):
    """Hears what the runner does; every method may be left as it is."""

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point; the block may say how it ends."""
        ...

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one plugin's turn."""
        ...

    def asked(self, point: str, plugin: str, times: int) -> None:
        """A plugin was asked: about *times* nodes, at points that are about nodes."""
        ...

    def paused(self, point: str, plugin: str) -> None:
        """A plugin's turn ends without an answer: it goes on after a pause, in another turn."""
        ...

    def unmeasured(self) -> "Observer":
        """Return who hears of questions within a plugin's turn: they are watched, not measured."""
        ...


class Silent:
    """Hears nothing."""

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:  # noqa: ARG002
        """Enclose one run of an extension point."""
        return nullcontext(_pass_over)

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Enclose one plugin's turn."""
        return nullcontext()

    def asked(self, point: str, plugin: str, times: int) -> None:
        """Pass over it."""

    def paused(self, point: str, plugin: str) -> None:
        """Pass over it."""

    def unmeasured(self) -> Observer:
        """Hear nothing of those either."""
        return self


def _pass_over(_status: str) -> None:
    """Hear how a run ends, and do nothing about it."""


SILENT = Silent()
