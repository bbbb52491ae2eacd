"""The schedulers that can be measured, all started with the same client limits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import null_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.null_plan import Plan
    from hack.control_plane import ControlPlane
    from hack.processes import Process

LIMITS: Final = {"qps": 5000, "burst": 5000}
"""Of every scheduler's client; upstream measures with the same. The null scheduler has none."""
_ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler under test.

    Args:
        name: Names it in tables and files.
        scheduler_name: What its pods have as ``spec.schedulerName``.
        start: Starts it on a control plane; it need not be ready when this returns.
    """

    name: str
    scheduler_name: str
    start: Callable[[ControlPlane, Plan], Process]


def _py_scheduler(plane: ControlPlane, _: Plan) -> Process:
    config = {"clientConnection": LIMITS, "leaderElection": {"leaderElect": False}}
    # kube-scheduler logs at verbosity 2 here, which names no single pod; neither do we.
    return plane.start_py_scheduler("--log-level", "warning", config=config)


def _kube_scheduler(plane: ControlPlane, _: Plan) -> Process:
    return plane.start_kube_scheduler({"clientConnection": LIMITS})


def _kube_scheduler_unbatched(plane: ControlPlane, _: Plan) -> Process:
    """Start it as upstream's own benchmark does: that switches opportunistic batching off."""
    flags = ("--feature-gates=OpportunisticBatching=false",)
    return plane.start_kube_scheduler({"clientConnection": LIMITS}, flags=flags)


def _null_scheduler(plane: ControlPlane, plan: Plan) -> Process:
    path = plane.directory / "plan.json"
    plan.write(path)
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.null_scheduler", "--plan", path]
    command += ["--kubeconfig", plane.admin_kubeconfig]
    return plane.spawn(null_scheduler.NAME, command, cwd=_ROOT)


OURS: Final = Scheduler("py-scheduler", "py-scheduler", _py_scheduler)
THEIRS: Final = Scheduler("kube-scheduler", "default-scheduler", _kube_scheduler)
NULL: Final = Scheduler("null", null_scheduler.NAME, _null_scheduler)
UNBATCHED: Final = Scheduler(
    "kube-scheduler-unbatched", "default-scheduler", _kube_scheduler_unbatched
)
SCHEDULERS: Final = {each.name: each for each in (OURS, THEIRS, NULL, UNBATCHED)}
EVERY_TIME: Final = (OURS.name, THEIRS.name, NULL.name)
"""Those that are measured unless others are named."""
