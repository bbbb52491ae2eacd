"""Leads the process group of one control plane, and ends it when its owner is gone.

The owner holds the write end of this process's standard input. However the owner ends (a crash, a
plain SIGTERM, even SIGKILL), the kernel closes that end; the read below returns and the whole group
is ended. This works alike on Linux and macOS, needs no process ids that may be stale, and leaves no
gap between starting a child and registering it: a child is born into the group.

A parent-death signal (Linux's prctl) would not do: it fires when the *thread* that started the
child ends, and it knows neither macOS nor temporary directories.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

_GRACE_SECONDS = 1.0


def main() -> None:
    """Wait for the owner's end, then end the group and remove the directory given."""
    directory = sys.argv[1]
    # A terminal's Ctrl-C goes to the owner's group; the owner passes it on to this group.
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
