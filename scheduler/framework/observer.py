"""The port through which calls of plugins are measured, supervised and timed out.

Decisions are pure functions: framework and cycle import neither metrics nor clocks. `observe`
and `out_of_tree` implement this protocol for them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Ending = Callable[[str], None]
"""Sets the status of a run, one of upstream's status codes; without a call it is Success."""


class Observer(Protocol):
    """Is called before and after each run of an extension point and each call of a plugin."""

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point; the block may set its status."""
        ...

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one call of a plugin."""
        ...

    def evaluated(self, point: str, plugin: str, times: int) -> None:
        """Count *times* evaluations of a plugin: one for each node at points that judge nodes."""
        ...

    def paused(self, point: str, plugin: str) -> None:
        """Record that the call that ends now is one step of a longer one: another continues it."""
        ...

    def unmeasured(self) -> "Observer":
        """Return an observer for calls within a call, which supervises but does not measure."""
        ...


class Silent:
    """An observer that measures nothing."""

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:  # noqa: ARG002
        """Enclose one run of an extension point."""
        return nullcontext(_ignore)

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Enclose one call of a plugin."""
        return nullcontext()

    def evaluated(self, point: str, plugin: str, times: int) -> None:
        """Do nothing."""

    def paused(self, point: str, plugin: str) -> None:
        """Do nothing."""

    def unmeasured(self) -> Observer:
        """Return this observer."""
        return self


def _ignore(_status: str) -> None:
    """Ignore the status of a run."""


SILENT = Silent()
