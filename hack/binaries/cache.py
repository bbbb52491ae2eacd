"""The user's cache of binaries: atomic names and one lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hack.binaries.pins import KUBERNETES, host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

KUBEBUILDER_ASSETS = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True)
class Cache:
    """A directory of complete, executable binaries."""

    directory: Path

    def find(self, names: Iterable[str]) -> dict[str, Path]:
        """Those of ``names`` that are here."""
        return executables_in(self.directory, names)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process fills the cache, then lock it for this one."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / ".lock").open("w") as lock:
            # The kernel drops the lock when its holder dies, however it dies.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A directory on the same file system, gone afterwards: renames out of it are atomic."""
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=self.directory) as path:
            yield Path(path)

    def put(self, name: str, path: Path) -> None:
        """Let a complete file appear under its final name."""
        path.chmod(0o755)
        path.replace(self.directory / name)


def default_cache(environ: Mapping[str, str] | None = None) -> Cache:
    """The cache of the current user, for the pinned version and this machine."""
    return Cache(_cache_home(environ or os.environ) / "assets" / f"{KUBERNETES}-{host()}")


def executables_in(directory: Path, names: Iterable[str]) -> dict[str, Path]:
    """Those of ``names`` that ``directory`` holds as executable files."""
    candidates = {name: directory / name for name in names}
    return {name: path for name, path in candidates.items() if shutil.which(path)}


def _cache_home(environ: Mapping[str, str]) -> Path:
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base) / "py-scheduler"
    home = Path(environ.get("HOME") or Path.home())
    base_of_system = "Library/Caches" if platform.system() == "Darwin" else ".cache"
    return home / base_of_system / "py-scheduler"
