"""How the pure rooms are measured without knowing who measures."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Observer(Protocol):
    """Hears what the runner does; every method may be left as it is."""

    def extension_point(self, point: str) -> AbstractContextManager[None]:
        """Enclose one run of an extension point."""
        ...

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[None]:
        """Enclose one plugin's turn."""
        ...

    def asked(self, point: str, plugin: str, times: int) -> None:
        """A plugin was asked: about *times* nodes, at points that are about nodes."""
        ...


class Silent:
    """Hears nothing."""

    def extension_point(self, point: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Enclose one run of an extension point."""
        return nullcontext()

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Enclose one plugin's turn."""
        return nullcontext()

    def asked(self, point: str, plugin: str, times: int) -> None:
        """Pass over it."""


SILENT = Silent()
