"""A digest of what was decided: equal before and after a change that changes no decision."""

import hashlib
import json
from pathlib import Path
from typing import Final

_SHOWN: Final = 16


class Decisions:
    """What was decided, in order.

    Args:
        path: Where each decision is written on a line of its own, so that two runs can be compared
            line by line; None for nowhere.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._hash = hashlib.sha256()
        self._path = path
        if path is not None:
            path.write_text("")

    def add(self, decided: object) -> None:
        """Add one decision: anything that JSON can express."""
        line = json.dumps(decided, sort_keys=True) + "\n"
        self._hash.update(line.encode())
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(line)

    @property
    def digest(self) -> str:
        """The digest of all decisions so far."""
        return self._hash.hexdigest()[:_SHOWN]
