"""py-scheduler as users run it, for tools and tests: one process, its log and its HTTP endpoint.

::

    with RunningScheduler(plane, config={...}) as scheduler:
        scheduler.wait_until_ready()
        scheduler.lines("pod.bound")
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final, Self

from hack.api import Json, request_text
from hack.kubeconfig import Access
from hack.ports import LOOPBACK, PortClaims

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hack.control_plane import ControlPlane
    from hack.processes import Process

_STOP_SECONDS: Final = 30
_START_SECONDS: Final = 60.0


class RunningScheduler:
    """One py-scheduler on a control plane; a context manager, or `start` and `stop`.

    Args:
        flags: Further flags.
        name: Names its log and its files, for several at once.
        config: Fields of a KubeSchedulerConfiguration. Without them there is no leader election,
            unless *flags* say so.
        kubeconfig: Its identity; an administrator's by default.
        port: Of its endpoint; claimed from the free ones by default.
        secure: Whether the endpoint is served over HTTPS, which `get` does not speak.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *flags: str,
        name: str = "py-scheduler",
        config: Mapping[str, Any] | None = None,
        kubeconfig: Path | None = None,
        port: int = 0,
        secure: bool = False,
    ) -> None:
        self.name = name
        self.process: Process
        self._plane = plane
        self._config = config
        self._kubeconfig = kubeconfig
        self._ports = PortClaims()
        # A claimed port stays ours while the process is down: a killed one comes back to it.
        self.port = port or self._ports.claim()
        chosen = [] if secure else ["--insecure-metrics"]
        if config is None and not any(flag.startswith("--leader-elect") for flag in flags):
            chosen.append("--no-leader-elect")
        self._flags = (*chosen, *flags)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # The process.

    def start(self) -> Self:
        """Start the process, for the first time or again; its log goes on in the same file."""
        self.process = self._plane.start_py_scheduler(
            *self._flags,
            name=self.name,
            config=self._config,
            kubeconfig=self._kubeconfig,
            port=self.port,
        )
        return self

    def stop(self) -> int:
        """End the process with SIGTERM, as a kubelet does, and return its exit code.

        One that has ended already, by itself or by `kill`, only gives its port back.
        """
        code = self.process.stop(grace_seconds=_STOP_SECONDS)
        self._ports.release()
        return code

    def kill(self) -> None:
        """End the process with SIGKILL; the port stays claimed, for `start` to take it again."""
        self.process.kill()

    # Its log.

    @property
    def log(self) -> str:
        """Everything it has written."""
        return self.process.log.read_text(errors="replace")

    def lines(self, event: str = "", **fields: Any) -> list[Json]:
        """Return its log lines with the name *event*, if given, that contain *fields*."""
        return [line for line in self.process.lines(event) if fields.items() <= line.items()]

    def wait_for_line(self, event: str, *, seconds: float = _START_SECONDS) -> None:
        """Wait until its log has a line with the name *event*."""
        self.process.wait_until(lambda: bool(self.lines(event)), event, timeout_seconds=seconds)

    # Its endpoint.

    def get(self, path: str) -> tuple[int, str]:
        """Read *path* of its HTTP endpoint; return status and body."""
        return request_text(Access(f"http://{LOOPBACK}:{self.port}", None, {}), "GET", path)

    def metric(self, name: str, /, **labels: str) -> float:
        """Return the sum of all series of *name* that carry *labels*; 0 where there are none."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            series = re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)
            if series is not None:
                found = dict(re.findall(r'(\w+)="([^"]*)"', series.group(1) or ""))
                if labels.items() <= found.items():
                    total += float(series.group(2))
        return total

    def is_ready(self) -> bool:
        """Return whether ``/readyz`` answers 200: it has listed the whole cluster."""
        with contextlib.suppress(OSError):
            return self.get("/readyz")[0] == 200
        return False

    def wait_until_ready(self, *, seconds: float = _START_SECONDS) -> Self:
        """Return once it is ready.

        Raises:
            ProcessFailedError: The process ended, or is not ready in time.
        """
        self.process.wait_until(self.is_ready, "ready", timeout_seconds=seconds)
        return self
