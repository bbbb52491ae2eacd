"""Where the binaries come from: those of the control plane, helm, kind and Prometheus.

Versions are pinned here and nowhere else; ``PY_SCHEDULER_KUBERNETES=1.33`` chooses another pinned
Kubernetes than the usual one. Four sources are asked in turn, each for what the ones
before it could not give:

1. the directory in ``KUBEBUILDER_ASSETS`` (envtest's convention: etcd, kube-apiserver, kubectl);
2. the user's cache, where the two sources below leave what they got;
3. the official releases, checked against their published SHA-256 sums. There are no servers for
   macOS among them, so that a Mac takes some from here and builds the rest;
4. the Go modules pinned beside this file, built with the local Go toolchain (minutes, once).

Of Prometheus any version will do: what is on the ``PATH``, as after ``apt-get install prometheus``,
comes before the cache.

A file appears in the cache under its final name only when it is complete, and a lock keeps
processes that start together from fetching or building the same thing twice.

``python -m hack.binaries`` does all this ahead of time and prints where the binaries are.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hack.binaries.cache import KUBEBUILDER_ASSETS, Cache, default_cache, executables_in
from hack.binaries.pins import (
    ALL,
    ETCD,
    HELM,
    KUBERNETES,
    KWOK,
    PROMETHEUS_BINARIES,
    MissingBinariesError,
)
from hack.binaries.releases import NO_DOWNLOAD, DownloadError, download, downloads_allowed
from hack.binaries.toolchain import BuildError, build

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    # Puts the named binary into a directory and returns its path.
    Fetch = Callable[[str, Path], Path]

__all__ = ["ALL", "ETCD", "HELM", "KUBERNETES", "KWOK", "MissingBinariesError", "ensure"]


def ensure(
    names: Collection[str] = ALL,
    *,
    environ: Mapping[str, str] | None = None,
    fetch: Fetch = download,
    make: Fetch = build,
) -> dict[str, Path]:
    """Find, download or build the named binaries; return their paths by name.

    Raises:
        MissingBinariesError: no source has one of them; the message says what to do.
    """
    environ = os.environ if environ is None else environ
    cache = default_cache(environ)
    found = _ready(names, cache, environ)
    if len(found) == len(names):
        return found
    supply = _Supply(cache, fetch if downloads_allowed(environ) else None, make)
    with cache.locked():
        # Somebody else may have filled the cache while we waited for the lock.
        found = _ready(names, cache, environ)
        found |= cache.find([name for name in names if name not in found and supply.obtain(name)])
    missing = tuple(name for name in names if name not in found)
    if missing:
        raise MissingBinariesError(missing, (_places(cache, environ), *supply.tried))
    return found


def _ready(names: Collection[str], cache: Cache, environ: Mapping[str, str]) -> dict[str, Path]:
    found = cache.find(names) | _on_the_path(names, environ)
    if assets := environ.get(KUBEBUILDER_ASSETS):
        found |= executables_in(Path(assets), names)
    return found


def _on_the_path(names: Collection[str], environ: Mapping[str, str]) -> dict[str, Path]:
    """Find an installed Prometheus; another Kubernetes than the pinned one would not do."""
    wanted = [name for name in names if name in PROMETHEUS_BINARIES]
    paths = {name: shutil.which(name, path=environ.get("PATH", "")) for name in wanted}
    return {name: Path(path) for name, path in paths.items() if path}


class _Supply:
    """Fills the cache, and remembers the attempts that failed."""

    def __init__(self, cache: Cache, fetch: Fetch | None, make: Fetch) -> None:
        self.tried: list[str] = []
        self._cache = cache
        self._fetch = fetch
        self._make = make
        if fetch is None:
            self.tried.append(f"downloading: switched off by {NO_DOWNLOAD}")

    def obtain(self, name: str) -> bool:
        """Download ``name`` or else build it; return whether the cache has it now."""
        return self._download(name) or self._build(name)

    def _download(self, name: str) -> bool:
        if self._fetch is None:
            return False
        try:
            self._store("downloading", name, self._fetch)
        except DownloadError as error:
            self._failed("downloading", name, error)
            if error.unreachable:
                # Offline: one time-out is enough.
                self._fetch = None
            return False
        return True

    def _build(self, name: str) -> bool:
        try:
            self._store("building", name, self._make)
        except BuildError as error:
            self._failed("building", name, error)
            return False
        return True

    def _store(self, verb: str, name: str, source: Fetch) -> None:
        _progress(f"{verb} {name}")
        with self._cache.workspace() as workspace:
            self._cache.put(name, source(name, workspace))

    def _failed(self, verb: str, name: str, error: Exception) -> None:
        self.tried.append(f"{verb} {name}: {error}")
        _progress(self.tried[-1])


def _places(cache: Cache, environ: Mapping[str, str]) -> str:
    assets = environ.get(KUBEBUILDER_ASSETS)
    return f"{KUBEBUILDER_ASSETS} ({assets or 'not set'}) and the cache {cache.directory}"


def _progress(line: str) -> None:
    print(f"hack.binaries: {line}", file=sys.stderr, flush=True)
