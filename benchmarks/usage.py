"""CPU and memory of other processes, as Linux accounts for them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

_TICK: Final = os.sysconf("SC_CLK_TCK")


class Usage(msgspec.Struct, frozen=True):
    """What a process used.

    Args:
        cpu_seconds: User and system time of all threads.
        peak_mb: The most memory that it held since its start, in MiB.
    """

    cpu_seconds: float
    peak_mb: float

    def since(self, earlier: Usage) -> Usage:
        """Return the CPU used since then; the peak stays that since the start."""
        return Usage(round(self.cpu_seconds - earlier.cpu_seconds, 3), round(self.peak_mb, 1))


NOTHING: Final = Usage(0.0, 0.0)


def usage_of(pid: int) -> Usage:
    """Return what a process used since its start; `NOTHING` where /proc does not say."""
    process = Path(f"/proc/{pid}")
    try:
        return parse(process.joinpath("stat").read_text(), process.joinpath("status").read_text())
    except FileNotFoundError:
        return NOTHING


def parse(stat: str, status: str) -> Usage:
    """Read ``/proc/PID/stat`` and ``/proc/PID/status``."""
    # The name of the program stands in parentheses and may contain anything.
    fields = stat.rpartition(")")[2].split()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    seconds = (int(fields[11]) + int(fields[12])) / _TICK
    return Usage(seconds, int(peak[1]) / 1024 if peak else 0.0)
