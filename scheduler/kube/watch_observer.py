"""The observer of watches: restarts, missing permissions, malformed objects."""

from typing import Final, Protocol

from scheduler.errors import ApiError
from scheduler.model.fact import ResourceName


class WatchObserver(Protocol):
    """Receives what happens to reflectors."""

    def watch_started(self, resource: ResourceName) -> None:
        """A watch was requested."""

    def watch_restarted(self, resource: ResourceName, problem: ApiError) -> None:
        """A watch or list broke off and is tried again; Gone means that it expired."""

    def watch_denied(self, resource: ResourceName, why: str) -> None:
        """A permission is missing; called once, however often the watch is tried again."""

    def list_done(self, resource: ResourceName, objects: int, seconds: float) -> None:
        """A list is complete."""

    def object_malformed(self, resource: ResourceName, key: str, problem: str) -> None:
        """An object cannot be read: what is left of it or its last good version is used."""


class SilentWatches:
    """The observer that ignores everything."""

    def watch_started(self, resource: ResourceName) -> None:
        """Ignore it."""

    def watch_restarted(self, resource: ResourceName, problem: ApiError) -> None:
        """Ignore it."""

    def watch_denied(self, resource: ResourceName, why: str) -> None:
        """Ignore it."""

    def list_done(self, resource: ResourceName, objects: int, seconds: float) -> None:
        """Ignore it."""

    def object_malformed(self, resource: ResourceName, key: str, problem: str) -> None:
        """Ignore it."""


SILENT_WATCHES: Final = SilentWatches()
