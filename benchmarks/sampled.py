"""Runs a module and samples where its main thread spends its CPU time, by part of the scheduler.

``python benchmarks/sampled.py OUT -m scheduler run ...`` writes the shares as JSON to OUT whenever
it gets SIGUSR1, and begins anew. A timer of CPU time interrupts the thread every millisecond, so
the figures are not distorted as those of a profiler that sees each call.
"""

import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

PARTS = {
    "/scheduler/cycle/": "decision",
    "/scheduler/loop/schedule_one.py": "decision",
    "/scheduler/cache/": "cache",
    "/scheduler/binding/": "binding cycle",
    "/scheduler/kube/binding.py": "binding cycle",
    "/scheduler/queue/": "queue",
    "/scheduler/loop/": "loop",
    "/scheduler/kube/event": "events",
    "/scheduler/kube/decode.py": "watch",
    "/scheduler/kube/object_store.py": "watch",
    "/scheduler/kube/reflector.py": "watch",
    "/scheduler/kube/": "requests",
    "/aiohttp/": "requests",
    "/scheduler/reporting/": "telemetry",
    "/scheduler/observe/": "telemetry",
}
"""The part of each file; the innermost frame with a part decides. Columns, plugins and models have
none of their own: they work for whoever calls them. So does writing to a socket."""

_samples: Counter[str] = Counter()


def _part_of(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        for path, part in PARTS.items():
            if path in name:
                return part
        frame = frame.f_back
    return "event loop"


def _sample(_number: int, frame: FrameType | None) -> None:
    _samples[_part_of(frame)] += 1


def main() -> None:
    """Run the module named by the arguments."""
    out, dash_m, module, *rest = sys.argv[1:]
    assert dash_m == "-m", "usage: sampled.py OUT -m MODULE ..."

    def write(_number: int, _frame: FrameType | None) -> None:
        whole = sum(_samples.values()) or 1
        Path(out).write_text(json.dumps({part: n / whole for part, n in _samples.items()}))
        _samples.clear()

    signal.signal(signal.SIGUSR1, write)
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    sys.argv = [module, *rest]
    sys.path[0] = str(Path.cwd())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
