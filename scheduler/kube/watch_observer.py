"""Who hears what watches go through."""

from typing import Final, Protocol

from scheduler.errors import ApiError
from scheduler.model.fact import ResourceName


class WatchObserver(Protocol):
    """Hears what reflectors go through."""

    def watch_started(self, resource: ResourceName) -> None:
        """A watch was asked for."""

    def watch_restarted(self, resource: ResourceName, problem: ApiError) -> None:
        """A watch or list broke off and is tried again; Gone means that it expired."""

    def watch_denied(self, resource: ResourceName, why: str) -> None:
        """Permission is missing: told once, however often it is tried again."""

    def list_done(self, resource: ResourceName, objects: int, seconds: float) -> None:
        """Everything there is was told."""

    def object_malformed(self, resource: ResourceName, key: str, problem: str) -> None:
        """An object cannot be read: its husk is told, or else its last good version stays."""


class SilentWatches:
    """Hears and says nothing."""

    def watch_started(self, resource: ResourceName) -> None:
        """Say nothing."""

    def watch_restarted(self, resource: ResourceName, problem: ApiError) -> None:
        """Say nothing."""

    def watch_denied(self, resource: ResourceName, why: str) -> None:
        """Say nothing."""

    def list_done(self, resource: ResourceName, objects: int, seconds: float) -> None:
        """Say nothing."""

    def object_malformed(self, resource: ResourceName, key: str, problem: str) -> None:
        """Say nothing."""


SILENT_WATCHES: Final = SilentWatches()
