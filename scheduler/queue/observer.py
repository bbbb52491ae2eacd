"""The queue's metrics port: the queue calls it without an import of what measures."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

R = TypeVar("R")


class QueueObserver(Protocol):
    """Receives what happens in the queue."""

    def incoming(self, queue: str, event: str) -> None:
        """A pod was put into *queue* (active, backoff or unschedulable) because of *event*."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """One pod more or less waits because *plugin* of *profile* rejected it."""

    def pre_enqueue(self, profile: str, ask: Callable[[], R]) -> R:
        """Enclose the run of the gates of *profile* for one pod."""
        ...

    def hint(self, plugin: str, event: str, ask: Callable[[], str]) -> str:
        """Enclose a call of *plugin*'s queueing hint for *event*.

        Returns what *ask* returns: Queue, QueueSkip or Error.
        """
        ...


class Silent:
    """Measures nothing."""

    def incoming(self, queue: str, event: str) -> None:
        """Do nothing."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """Do nothing."""

    def pre_enqueue(self, profile: str, ask: Callable[[], R]) -> R:  # noqa: ARG002
        """Return what *ask* returns."""
        return ask()

    def hint(self, plugin: str, event: str, ask: Callable[[], str]) -> str:  # noqa: ARG002
        """Return what *ask* returns."""
        return ask()


SILENT: Final = Silent()
