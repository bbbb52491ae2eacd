"""Where the control plane's binaries come from.

Versions are pinned here and nowhere else. Four sources are asked in turn, each for what the ones
before it could not give:

1. the directory in ``KUBEBUILDER_ASSETS`` (envtest's convention: etcd, kube-apiserver, kubectl);
2. the user's cache, where the two sources below leave what they got;
3. the official releases, checked against their published SHA-256 sums. There are no servers for
   macOS among them, so that a Mac takes some from here and builds the rest;
4. the Go modules pinned beside this file, built with the local Go toolchain (minutes, once).

A file appears in the cache under its final name only when it is complete, and a lock keeps
processes that start together from fetching or building the same thing twice.

``python -m hack.binaries`` does all this ahead of time and prints where the binaries are.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hack.binaries.build import BuildError, build
from hack.binaries.cache import KUBEBUILDER_ASSETS, Cache, default_cache, executables_in
from hack.binaries.download import NO_DOWNLOAD, DownloadError, download, downloads_allowed
from hack.binaries.pins import ALL, ETCD, KUBERNETES, KWOK, MissingBinariesError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    # Puts the named binary into a directory and returns its path.
    Fetch = Callable[[str, Path], Path]

__all__ = ["ALL", "ETCD", "KUBERNETES", "KWOK", "MissingBinariesError", "ensure"]


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
    with cache.locked():
        # Somebody else may have filled the cache while we waited for the lock.
        found = _ready(names, cache, environ)
        tried = [_describe_places(cache, environ)]
        for name in names:
            if name not in found and _obtain(name, cache, environ, fetch, make, tried):
                found |= cache.find([name])
    missing = tuple(name for name in names if name not in found)
    if missing:
        raise MissingBinariesError(missing, tuple(tried))
    return found


def _ready(names: Collection[str], cache: Cache, environ: Mapping[str, str]) -> dict[str, Path]:
    found = cache.find(names)
    if assets := environ.get(KUBEBUILDER_ASSETS):
        found |= executables_in(Path(assets), names)
    return found


def _obtain(
    name: str,
    cache: Cache,
    environ: Mapping[str, str],
    fetch: Fetch,
    make: Fetch,
    tried: list[str],
) -> bool:
    """Download ``name`` or build it; note in ``tried`` what failed."""
    sources = [("downloading", fetch, DownloadError)] if downloads_allowed(environ) else []
    if not sources:
        tried.append(f"downloading {name}: switched off by {NO_DOWNLOAD}")
    for verb, source, failure in [*sources, ("building", make, BuildError)]:
        _progress(f"{verb} {name}")
        try:
            with cache.workspace() as workspace:
                cache.put(name, source(name, workspace))
        except failure as error:
            tried.append(f"{verb} {error}")
            _progress(f"{verb} {error}")
        else:
            return True
    return False


def _describe_places(cache: Cache, environ: Mapping[str, str]) -> str:
    assets = environ.get(KUBEBUILDER_ASSETS)
    return f"{KUBEBUILDER_ASSETS} ({assets or 'not set'}) and the cache {cache.directory}"


def _progress(line: str) -> None:
    print(f"hack.binaries: {line}", file=sys.stderr, flush=True)
