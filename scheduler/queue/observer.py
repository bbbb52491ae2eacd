"""How the queue is measured without knowing who measures."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

R = TypeVar("R")


class QueueObserver(Protocol):
    """Hears what happens in the queue."""

    def incoming(self, queue: str, event: str) -> None:
        """A pod was put into *queue* (active, backoff or unschedulable) because of *event*."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """One pod more or less waits because *plugin* of *profile* turned it away."""

    def pre_enqueue(self, profile: str, ask: Callable[[], R]) -> R:
        """Enclose the question to the gates of *profile* whether a pod may enter."""
        ...

    def hint(self, plugin: str, event: str, ask: Callable[[], str]) -> str:
        """Enclose a question to *plugin*: whether *event* helps.

        Returns what *ask* returns: Queue, QueueSkip or Error.
        """
        ...


class Silent:
    """Hears nothing."""

    def incoming(self, queue: str, event: str) -> None:
        """Pass over it."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """Pass over it."""

    def pre_enqueue(self, profile: str, ask: Callable[[], R]) -> R:  # noqa: ARG002
        """Ask, and no more."""
        return ask()

    def hint(self, plugin: str, event: str, ask: Callable[[], str]) -> str:  # noqa: ARG002
        """Ask, and no more."""
        return ask()


SILENT: Final = Silent()
