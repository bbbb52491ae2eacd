"""The protocol by which the queue reports metrics; the queue imports no metrics library.

Calls of plugins are timed. The queue has no clock, so `began` returns the time before a call, and
the queue passes it back after the call.
"""

from typing import Final, Protocol


class QueueObserver(Protocol):
    """Receives what happens in the queue."""

    def incoming(self, queue: str, event: str) -> None:
        """A pod was put into *queue* (active, backoff or unschedulable) because of *event*."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """One pod more or less waits because *plugin* of *profile* rejected it."""

    def began(self) -> float:
        """Return the moment at which plugins are called."""
        ...

    def pre_enqueue(self, profile: str, began: float) -> None:
        """The gates of *profile* ran for one pod."""

    def hint(self, plugin: str, event: str, result: str, began: float) -> None:
        """A queueing hint of *plugin* ran for *event*; it gave Queue, QueueSkip or Error."""


class Silent:
    """Measures nothing."""

    def incoming(self, queue: str, event: str) -> None:
        """Do nothing."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """Do nothing."""

    def began(self) -> float:
        """Return 0, since nothing is measured."""
        return 0.0

    def pre_enqueue(self, profile: str, began: float) -> None:
        """Do nothing."""

    def hint(self, plugin: str, event: str, result: str, began: float) -> None:
        """Do nothing."""


SILENT: Final = Silent()
