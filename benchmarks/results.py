"""The results of runs, as JSON files: one file a run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.figures import Latency, Rates  # noqa: TC001 - msgspec reads annotations
from benchmarks.usage import Usage  # noqa: TC001 - msgspec reads annotations
from hack.binaries.pins import KUBERNETES

RESULTS: Final = Path(__file__).parent / "results"
LOCAL: Final = RESULTS / "local"
"""Where results go unless told otherwise; git ignores it."""
PUBLISHED: Final = RESULTS / "published"
"""Those that docs/performance.md shows."""


SCHEDULER: Final = "scheduler"
"""The scheduler's process among those whose usage is recorded, whatever its name."""


class Machine(msgspec.Struct, frozen=True):
    """Where a run took place, without names.

    Args:
        load_before: The load average of the last minute: how busy the machine was.
    """

    cores: int
    memory_gib: int
    processor: str
    system: str
    python: str
    kubernetes: str
    commit: str
    load_before: float


class Run(msgspec.Struct, frozen=True):
    """What one run of one scheduler came to.

    Args:
        sizes: The numbers of the workload, by name.
        pods: How many pods were measured.
        bound: How many of them were bound.
        rates: Pods a second.
        latency: From creation to binding; None where pods were created before the scheduler ran.
        first_seconds: From the beginning of the measurement to the first binding.
        per_second: How many pods were bound in each second.
        usage: CPU until the scheduler is idle, from the first creation or, where pods were created
            before the scheduler ran, from the first binding; and peak memory. By process:
            scheduler, kube-apiserver, etcd.
        start_cpu_seconds: CPU that the scheduler's process had used before.
        victims: How many pods had to go.
        problems: What is wrong with the final placement; empty if all is well.
    """

    workload: str
    scale: str
    mode: str
    scheduler: str
    turn: int
    sizes: dict[str, int]
    pods: int
    bound: int
    rates: Rates
    latency: Latency | None
    first_seconds: float
    per_second: list[int]
    usage: dict[str, Usage]
    start_cpu_seconds: float
    victims: int
    problems: list[str]
    machine: Machine

    @property
    def pods_per_second(self) -> float:
        """The rate that counts.

        Drained pods were all there before the scheduler was, so the time that it needs to start is
        left out. Elsewhere the time from the first creation counts: one scheduler binds pods as
        they come, another decides about all of them first.
        """
        return self.rates.middle if self.mode == "drain" else self.rates.end_to_end

    @property
    def cpu_ms_per_pod(self) -> float:
        """CPU of the scheduler's process for each pod that it bound."""
        return 1000 * self.usage[SCHEDULER].cpu_seconds / max(1, self.bound)

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.workload}.{self.scale}.{self.mode}.{self.scheduler}.{self.turn}.json"


def save(run: Run, directory: Path) -> Path:
    """Write a run, over an earlier one of that name; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / run.file_name
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    return path


def load(directory: Path) -> list[Run]:
    """Read all runs of a directory, in the order of their names."""
    decode = msgspec.json.Decoder(Run).decode
    return [decode(path.read_bytes()) for path in sorted(directory.glob("*.*.*.*.*.json"))]


def machine() -> Machine:
    """Describe this machine as it is now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=os.cpu_count() or 0,
        memory_gib=round(memory / 2**30),
        processor=_processor(),
        system=platform.system(),
        python=platform.python_version(),
        kubernetes=KUBERNETES,
        commit=_commit(),
        load_before=round(os.getloadavg()[0], 2),
    )


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", path.read_text()) if path.exists() else None
    return found[1].strip() if found else platform.machine()


def _commit() -> str:
    """Return the commit that is measured, with a plus sign if files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
