"""The schedulers that can be measured, all started with the same client limits."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from benchmarks import null_scheduler
from benchmarks.results import LOCAL
from hack import components

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.null_plan import Plan
    from hack.control_plane import ControlPlane
    from hack.processes import Process

LIMITS: Final = {"qps": 5000, "burst": 5000}
"""Of every scheduler's client; upstream measures with the same. The null scheduler has none."""
PROFILE: Final = LOCAL / "py-scheduler.prof"
"""What ``python -m pstats`` reads after a run of py-scheduler-profiled."""
_OURS_CONFIG: Final = {"clientConnection": LIMITS, "leaderElection": {"leaderElect": False}}
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
    # kube-scheduler logs at verbosity 2 here, which names no single pod; neither do we.
    return plane.start_py_scheduler("--log-level", "warning", config=_OURS_CONFIG)


def _kube_scheduler(plane: ControlPlane, _: Plan) -> Process:
    return plane.start_kube_scheduler({"clientConnection": LIMITS})


def _kube_scheduler_unbatched(plane: ControlPlane, _: Plan) -> Process:
    """Start it as upstream's own benchmark does: that switches opportunistic batching off."""
    flags = ("--feature-gates=OpportunisticBatching=false",)
    return plane.start_kube_scheduler({"clientConnection": LIMITS}, flags=flags)


def _py_scheduler_profiled(plane: ControlPlane, _: Plan) -> Process:
    """Start it under cProfile, which costs time of its own: for shares, not for rates."""
    path = plane.directory / "profiled.yaml"
    path.write_text(yaml.safe_dump(components.configuration(_OURS_CONFIG)))
    PROFILE.parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [sys.executable, "-m", "cProfile", "-o", PROFILE, "-m", "scheduler"]
    command += components.py_scheduler(0, plane.admin_kubeconfig, path)
    return plane.spawn("py-scheduler-profiled", [*command, "--log-level", "warning"], cwd=_ROOT)


def command_scheduler(words: str) -> Scheduler:
    """Return a scheduler that a command starts, as in ``NAME=PROGRAM --kubeconfig {kubeconfig}``.

    Its pods have *NAME* as their scheduler name. Its client limits are its own affair.

    Raises:
        ValueError: There is no name or no program.
    """
    name, _, command = words.partition("=")
    program = shlex.split(command)
    if not name or not program:
        raise ValueError(f"a scheduler is NAME=PROGRAM ARGUMENTS, not {words!r}")

    def start(plane: ControlPlane, _: Plan) -> Process:
        kubeconfig = str(plane.admin_kubeconfig)
        return plane.spawn(name, [word.replace("{kubeconfig}", kubeconfig) for word in program])

    return Scheduler(name, name, start)


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
PROFILED: Final = Scheduler("py-scheduler-profiled", "py-scheduler", _py_scheduler_profiled)
SCHEDULERS: Final = {each.name: each for each in (OURS, THEIRS, NULL, UNBATCHED, PROFILED)}
EVERY_TIME: Final = (OURS.name, THEIRS.name, NULL.name)
"""Those that are measured unless others are named."""
