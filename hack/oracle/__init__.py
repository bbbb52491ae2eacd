"""The oracle: the plugins of the pinned kube-scheduler, asked through a pipe.

The Go program beside this file links ``k8s.io/kubernetes`` of the version the control plane is
pinned to. It is built once and kept with the control plane's binaries, under a name that tells
from which sources it was built.

    with Oracle() as oracle:
        answer = oracle.ask({"objects": [...], "pods": [...], "config": {...}})
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hack.binaries.cache import default_cache
from hack.binaries.toolchain import Target, build_target

if TYPE_CHECKING:
    from types import TracebackType

    from hack.binaries.cache import Cache

_PROGRAM: Final = Path(__file__).parent / "program"


class OracleError(RuntimeError):
    """The oracle could not answer."""


class Oracle:
    """One process that answers questions, one line each."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [oracle_binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Put one question; nodes in the answer are indices into its ``nodes``.

        Raises:
            OracleError: If the question cannot be answered.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question, separators=(",", ":")).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"the oracle is gone: exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if problem := answer.get("error"):
            raise OracleError(problem)
        return answer


def oracle_binary() -> Path:
    """Find the oracle in the cache or build it there; return its path.

    Raises:
        BuildError: If there is no Go toolchain, or it fails.
    """
    cache, name = default_cache(), f"oracle-{_sources_digest()}"
    if found := cache.find([name]):
        return found[name]
    with cache.locked():
        if not cache.find([name]):
            _build(cache, name)
    return cache.directory / name


def _build(cache: Cache, name: str) -> None:
    with cache.workspace() as workspace:
        cache.put(name, build_target(Target(_PROGRAM, "."), workspace / name))
    for other in cache.directory.glob("oracle-*"):
        if other.name != name:
            other.unlink()


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(_PROGRAM.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
