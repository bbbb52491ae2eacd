"""Loopback ports that stay ours while a server on them is down.

Asking the kernel for a free port gives one out of its ephemeral range, and gives the same one to an
outgoing connection while an API server is being restarted. So ports are taken from below
the ephemeral ranges of Linux and macOS, and a lock file keeps other control planes of this machine
away for as long as the claim is held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from io import TextIOWrapper

LOOPBACK: Final = "127.0.0.1"

_PORTS: Final = range(20_000, 30_000)
_ATTEMPTS: Final = 200


class PortClaims:
    """The ports of one control plane."""

    def __init__(self) -> None:
        self._locks: list[TextIOWrapper] = []

    def claim(self) -> int:
        """Claim a port that is free and that no other control plane has claimed."""
        for port in random.sample(_PORTS, _ATTEMPTS):
            if self._try(port):
                return port
        raise RuntimeError(f"no free port on {LOOPBACK} in {_PORTS}")

    def release(self) -> None:
        """Give every port back."""
        while self._locks:
            self._locks.pop().close()

    def _try(self, port: int) -> bool:
        directory = Path(tempfile.gettempdir()) / f"py-scheduler-ports-{os.getuid()}"
        directory.mkdir(mode=0o700, exist_ok=True)
        lock = (directory / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _bind(port)
        except OSError:
            lock.close()
            return False
        self._locks.append(lock)
        return True


def _bind(port: int) -> None:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))
