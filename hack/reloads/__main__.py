"""``make reloads``: five hundred changes of the configuration under load, and the figures."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from hack.control_plane import ControlPlane
from hack.histograms import buckets, longest
from hack.manifests import objects, template
from hack.reloads.trial import Trial, quantile
from hack.running_scheduler import RunningScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "reloads"
ROOT: Final = Path(__file__).parents[2]
_REPLICAS: Final = 2
_WANTED: Final = {
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
}


def main() -> int:
    """Run one trial and print its figures; return the exit code."""
    parser = argparse.ArgumentParser("python -m hack.reloads", description=__doc__)
    parser.add_argument("--changes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=50.0, help="pods a second")
    parser.add_argument("--keep-logs-in", type=Path, default=None)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(keep_logs_in=options.keep_logs_in))
        plane.create_namespace(NAME)
        kubeconfig = install(plane, NAME)
        replicas = [
            stack.enter_context(replica(plane, NAME, number, kubeconfig))
            for number in range(_REPLICAS)
        ]
        for each in replicas:
            each.wait_for_line("scheduler.started")
        trial = Trial(plane.admin_kubeconfig, NAME, options.changes, options.seed, options.rate)
        began = time.monotonic()
        asyncio.run(trial.run())
        trial.wrong += check_replicas(replicas)
        return tell(trial, replicas, time.monotonic() - began)


def install(plane: ControlPlane, name: str) -> Path:
    """Install the resource and the chart's account; return the account's kubeconfig."""
    plane.kubectl("apply", "-f", "-", stdin=_rendered(name))
    crd = "crd/schedulerconfigurations.py-scheduler.dev"
    plane.kubectl("wait", "--for=condition=Established", crd)
    return plane.service_account_kubeconfig(name, name)


def uninstall(plane: ControlPlane, name: str) -> None:
    """Remove what `install` installed."""
    plane.kubectl("delete", "-f", "-", stdin=_rendered(name))


def _rendered(name: str) -> str:
    flags = ["--set", f"configResource.name={name}", "--set", f"fullnameOverride={name}"]
    found = objects(template("--no-hooks", *flags, release=name, namespace=name))
    return yaml.safe_dump_all([each for each in found if each["kind"] in _WANTED])


def replica(plane: ControlPlane, name: str, number: int, kubeconfig: Path) -> RunningScheduler:
    """Return a scheduler that follows the object *name*, with a lease."""
    config = {
        "leaderElection": {"resourceName": name, "resourceNamespace": name},
        "clientConnection": {"qps": 500, "burst": 500},
    }
    return RunningScheduler(
        plane,
        f"--config-resource={name}",
        name=f"{name}-{number}",
        config=config,
        kubeconfig=kubeconfig,
    )


def check_replicas(replicas: Sequence[RunningScheduler]) -> list[str]:
    """Return what is wrong with the replicas, which must still run with the same configuration."""
    wrong = []
    fingerprints = set()
    for each in replicas:
        if not each.process.running:
            wrong.append(f"{each.name} ended: {each.process.tail(5)}")
            continue
        if "Traceback" in each.log:
            wrong.append(f"{each.name} logged an exception: {each.process.log}")
        if each.lines("configuration_watch.failed"):
            wrong.append(f"{each.name}: kopf failed")
        fingerprints |= set(
            re.findall(r'configuration_info{fingerprint="(\w+)"} 1', each.get("/metrics")[1])
        )
    if len(fingerprints) > 1:
        wrong.append(f"replicas differ in the end: {fingerprints}")
    return wrong


def tell(trial: Trial, replicas: Sequence[RunningScheduler], seconds: float) -> int:
    """Print the figures; return the exit code."""
    total = sum(trial.became.values())
    bound = sum(trial.pods.values())
    refused = ", ".join(f"{n} {why}" for why, n in trial.became.items() if why != "Applied")
    print(f"{total} changes in {seconds:.0f} s: {trial.became['Applied']} good; {refused}")
    print(
        f"{len(trial.seconds)} waited for: in the status after "
        f"{quantile(trial.seconds, 0.5) * 1000:.0f} ms (median), "
        f"{quantile(trial.seconds, 0.99) * 1000:.0f} ms (99 %), "
        f"{max(trial.seconds, default=0) * 1000:.0f} ms (longest)"
    )
    print(
        f"{len(trial.pods)} pods: {bound} to be bound, {len(trial.pods) - bound} that fit nowhere"
    )
    for each in replicas:
        if each.process.running:
            applied = len(each.lines("configuration.applied"))
            stall = longest({}, buckets(each.get("/metrics")[1], "py_scheduler_loop_stall_seconds"))
        print(f"{each.name}: {applied} applied, no stall above {stall:g} s")
    for line in trial.wrong[:20]:
        print(f"WRONG: {line}")
    print(f"reloads: {total} changes, {len(trial.wrong)} violations")
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
