"""Child processes that cannot outlive their owner, with a log file each."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from hack.waiting import NotInTimeError, until

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence

_GUARDIAN: Final = Path(__file__).with_name("guardian.py")
_LOG_LINES_SHOWN: Final = 25


class ProcessFailedError(RuntimeError):
    """A process ended or did not become ready; the message ends with the tail of its log."""


class Process:
    """One running child of a `ProcessGroup`."""

    def __init__(self, name: str, child: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self.port: int | None = None
        self._child = child

    def __repr__(self) -> str:
        return f"<Process {self.name} pid={self.pid} returncode={self.returncode}>"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._child.poll()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self._child.send_signal(number)

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for its end and return the return code."""
        return self._child.wait(timeout_seconds)

    def stop(self, *, grace_seconds: float = 10.0) -> int:
        """Send SIGTERM, and SIGKILL after *grace_seconds*; return the return code."""
        if grace_seconds > 0:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._child.wait(grace_seconds)
        self._child.kill()
        return self._child.wait()

    def kill(self) -> None:
        """Send SIGKILL, as after a crash, and wait for the end."""
        self.stop(grace_seconds=0)

    def tail(self, lines: int = _LOG_LINES_SHOWN) -> str:
        """The last lines of its log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The JSON lines of its log with the name *event*; all of them by default.

        A line that is not complete yet is left out.
        """
        whole = self.log.read_text(errors="replace").rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if event in {"", line.get("event")}]

    def wait_until(
        self, ready: Callable[[], bool], what: str, *, timeout_seconds: float = 60.0
    ) -> None:
        """Poll ``ready`` until it holds.

        Raises:
            ProcessFailedError: the process ended first, or the time is up.
        """
        try:
            until(lambda: ready() or not self.running, what, seconds=timeout_seconds)
        except NotInTimeError:
            raise self._failed(f"was not {what} after {timeout_seconds:.0f} s") from None
        if not self.running and not ready():
            raise self._failed(f"ended with {self.returncode} before {what}")

    def _failed(self, what: str) -> ProcessFailedError:
        return ProcessFailedError(
            f"{self.name} {what}; the end of its log ({self.log}):\n{self.tail()}"
        )


class ProcessGroup:
    """Children in one process group, led by a guardian that outlives the owner by a second."""

    def __init__(self, directory: Path, logs: Path) -> None:
        self._logs = logs
        self._guardian = subprocess.Popen(
            # Isolated and without site-packages: it starts within milliseconds.
            [sys.executable, "-I", "-S", str(_GUARDIAN), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        )
        self._running: list[Process] = []

    @property
    def processes(self) -> tuple[Process, ...]:
        """All children in the order of their start, including those that have ended."""
        return tuple(self._running)

    def spawn(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start a child; its output is appended to ``<name>.log``."""
        log = self._logs / f"{name}.log"
        with log.open("ab") as output:
            child = self._start(command, output, environ, cwd)
        process = Process(name, child, log)
        self._running.append(process)
        return process

    def _start(
        self,
        command: Sequence[str | Path],
        output: IO[bytes],
        environ: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environ or {})},
            cwd=cwd,
            process_group=self._guardian.pid,
        )

    def close(self, *, grace_seconds: Mapping[str, float] | None = None) -> None:
        """End every child, the last one started first, then the guardian."""
        grace = grace_seconds or {}
        for process in reversed(self._running):
            process.stop(grace_seconds=grace.get(process.name, 0.0))
        self._running.clear()
        assert self._guardian.stdin is not None
        self._guardian.kill()
        self._guardian.wait()
        self._guardian.stdin.close()
