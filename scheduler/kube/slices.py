"""Slices of a long run of objects, between which the event loop runs other tasks."""

from typing import Final

SLICE_OBJECTS: Final = 200
"""A few milliseconds of work where objects are as large as usual."""
SLICE_BYTES: Final = 1 << 20
"""About as much work: the API server accepts objects of 1.5 MB."""

LARGE_BYTES: Final = 1 << 17
"""An object of this size may take longer to read than a slice, and is read in pieces."""


class Slices:
    """Counts objects, and says when a slice is full; its owner lets other tasks run then."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._objects = self._bytes = 0

    def is_full(self, size: int = 0) -> bool:
        """Count one object of *size* bytes; tell whether the slice is full, and begin the next."""
        self._objects += 1
        self._bytes += size
        if self._objects < SLICE_OBJECTS and self._bytes < SLICE_BYTES:
            return False
        self._objects = self._bytes = 0
        return True
