"""How the queue is measured without knowing who measures."""

from typing import Final, Protocol


class QueueObserver(Protocol):
    """Hears what happens in the queue."""

    def incoming(self, queue: str, event: str) -> None:
        """A pod was put into *queue* (active, backoff or unschedulable) because of *event*."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """One pod more or less waits because *plugin* of *profile* turned it away."""

    def hint_run(self, plugin: str, event: str, result: str) -> None:
        """*plugin* was asked whether *event* helps; *result* is Queue, QueueSkip or Error."""


class Silent:
    """Hears nothing."""

    def incoming(self, queue: str, event: str) -> None:
        """Pass over it."""

    def unschedulable_delta(self, plugin: str, profile: str, delta: int) -> None:
        """Pass over it."""

    def hint_run(self, plugin: str, event: str, result: str) -> None:
        """Pass over it."""


SILENT: Final = Silent()
