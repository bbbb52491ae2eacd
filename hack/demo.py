"""``make demo``: a real control plane, simulated nodes, py-scheduler, and where every pod went.

The API server, etcd, the controller manager and py-scheduler are the real ones; only nodes and
containers are played, by kwok. Everything runs on the loopback in a temporary directory and is gone
at the end, after Ctrl-C too. The workload is in ``hack/demo/*.yaml``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hack.binaries import KUBERNETES, MissingBinariesError, ensure
from hack.binaries.cache import default_cache
from hack.control_plane import CONTROLLER_MANAGER, KWOK, ControlPlane
from hack.nodes import add_nodes, node
from hack.processes import ProcessFailedError
from hack.running_scheduler import RunningScheduler
from hack.waiting import NotInTimeError, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hack.api import Json

WORKLOAD: Final = Path(__file__).with_name("demo")
NAMESPACE: Final = "demo"
ZONE: Final = "topology.kubernetes.io/zone"
BINARIES: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok")

_PODS: Final = 14
_SETTLE_SECONDS: Final = 30.0
_TICK_SECONDS: Final = 30.0
_STILL_WAITING: Final = frozenset({"Unschedulable", "SchedulingGated"})


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hack.demo", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--keep", action="store_true", help="leave it running until Ctrl-C")
    options = parser.parse_args()
    # Both ends of the usual kind leave the blocks below in order; a shell may have both ignored.
    for polite in (signal.SIGINT, signal.SIGTERM):
        signal.signal(polite, signal.default_int_handler)
    screen = Screen.on_stdout()
    try:
        return _demo(screen, keep=options.keep)
    except KeyboardInterrupt:
        screen.say("\nStopped; everything is cleaned up.")
        return 130
    except (MissingBinariesError, ProcessFailedError, NotInTimeError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1


def _demo(screen: Screen, *, keep: bool) -> int:
    began = time.monotonic()
    screen.title("py-scheduler on a real Kubernetes control plane")
    _get_binaries(screen)
    with contextlib.ExitStack() as stack:
        with screen.step(f"Kubernetes {KUBERNETES}: API server, etcd, controller manager, kwok"):
            plane = stack.enter_context(ControlPlane(components=(CONTROLLER_MANAGER, KWOK)))
        with screen.step("9 simulated nodes in 3 zones"):
            _add_nodes(plane)
        with screen.step(f"{_PODS} pods that wait for a scheduler"):
            _submit(plane)
        with screen.step("py-scheduler: first decisions about all of them"):
            # As shipped: with a lease, and metrics over HTTPS.
            scheduler = RunningScheduler(plane, "--leader-elect=true", secure=True)
            stack.enter_context(scheduler).process.wait_until(
                lambda: _settled(_pods(plane)),
                "done with every pod",
                timeout_seconds=_SETTLE_SECONDS,
            )
        _show(screen, plane, scheduler)
        _ungate(screen, plane, scheduler)
        screen.say(f"\n{screen.dim(f'{time.monotonic() - began:.1f} s in all.')}")
        if keep:
            _keep(screen, plane, scheduler)
    screen.say(screen.dim("Everything is cleaned up."))
    return 0


# The parts of the demo, in order.


def _get_binaries(screen: Screen) -> None:
    """Find the binaries; where that takes minutes, say so first and count the time."""
    missing = [name for name in BINARIES if name not in default_cache().find(BINARIES)]
    if missing and "KUBEBUILDER_ASSETS" not in os.environ:
        screen.say(
            f"First run: {', '.join(missing)} must be fetched, once for this user. A download"
            "\ntakes about a minute; without one they are built with Go, in five to ten minutes."
        )
    with _ticking(screen):
        ensure(BINARIES)


@contextlib.contextmanager
def _ticking(screen: Screen) -> Iterator[None]:
    """Say now and then how long it has been taking."""
    done, began = threading.Event(), time.monotonic()

    def tick() -> None:
        while not done.wait(_TICK_SECONDS):
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            screen.say(screen.dim(f"  … still at it after {minutes}:{seconds:02}"))

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()


def demo_nodes() -> list[Json]:
    """Describe nine nodes in three zones; four of them are special."""
    special: Mapping[str, dict[str, Any]] = {
        "north-2": {"labels": {"disktype": "ssd"}},
        "east-3": {"unschedulable": True},
        "south-2": {"capacity": {"example.com/licence": "1"}},
        "south-3": {
            "capacity": {"example.com/gpu": "4"},
            "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
        },
    }
    names = [f"{zone}-{number}" for zone in ("north", "east", "south") for number in (1, 2, 3)]
    return [
        node(name, cpu="4", memory="16Gi", zone=name.partition("-")[0], **special.get(name, {}))
        for name in names
    ]


def _add_nodes(plane: ControlPlane) -> None:
    described = demo_nodes()
    add_nodes(plane.admin_kubeconfig, described)
    wanted = {each["metadata"]["name"]: _taints(each) for each in described}

    def ready() -> bool:
        found = plane.request("GET", "/api/v1/nodes")["items"]
        # The node lifecycle controller taints a new node until its first heartbeat.
        return {each["metadata"]["name"]: _taints(each) for each in found} == wanted

    _wait_for(ready, "Ready condition on every node")


def _taints(described: Json) -> set[str]:
    cordoned = (
        {"node.kubernetes.io/unschedulable"} if described["spec"].get("unschedulable") else set()
    )
    return {taint["key"] for taint in described["spec"].get("taints", [])} | cordoned


def _submit(plane: ControlPlane) -> None:
    plane.create_namespace(NAMESPACE)
    plane.kubectl("apply", "-n", NAMESPACE, "-f", str(WORKLOAD))
    _wait_for(lambda: len(_pods(plane)) == _PODS, f"{_PODS} pods")


def _ungate(screen: Screen, plane: ControlPlane, scheduler: RunningScheduler) -> None:
    """Take the gate off the gated pod, and watch it go."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/gated"
    screen.say(f"\nTaking the gate off {screen.bold('gated')} …")
    began = time.monotonic()
    plane.request(
        "PATCH",
        path,
        {"spec": {"schedulingGates": []}},
        content_type="application/merge-patch+json",
    )
    _wait_for(lambda: "nodeName" in plane.request("GET", path)["spec"], "node for the gated pod")
    seconds = time.monotonic() - began
    _wait_for(lambda: "gated" in _bound_lines(scheduler), "log line about the gated pod")
    row = row_of(plane.request("GET", path), _zones(plane), _bound_lines(scheduler))
    screen.say(f"  {screen.good(row.state)} on {row.node} after {seconds * 1000:.0f} ms: {row.why}")


def _keep(screen: Screen, plane: ControlPlane, scheduler: RunningScheduler) -> None:
    kubectl = ensure(["kubectl"])["kubectl"]
    screen.say(
        f"\nIt goes on running. In another terminal:\n\n"
        f"  export KUBECONFIG={plane.admin_kubeconfig}\n"
        f"  {kubectl} get pods -n {NAMESPACE} -o wide\n\n"
        f"py-scheduler's log: {scheduler.process.log}\nCtrl-C ends it."
    )
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


# What is there.


@dataclass(frozen=True)
class Row:
    """One pod in the table."""

    pod: str
    state: str
    node: str
    zone: str
    why: str


def row_of(pod: Json, zones: Mapping[str, str], bound: Mapping[str, Json]) -> Row:
    """Describe a pod: where it is and why, or why it is nowhere."""
    name, node_name = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if not node_name:
        condition = _condition(pod)
        gates = ", ".join(gate["name"] for gate in pod["spec"].get("schedulingGates", []))
        # What preemption has to add is the same for all of them, and long.
        message = condition.get("message", "").partition(" no new claims to deallocate")[0]
        why = f"waits for {gates}" if gates else message
        return Row(name, "gated" if gates else "waiting", "", "", why)
    line = bound.get(name)
    why = f"best of {line['feasible']} that fit, {line['evaluated']} evaluated" if line else ""
    if line and line["feasible"] == 1:
        why = f"the only one of {line['evaluated']} that fits"
    return Row(name, "bound", node_name, zones.get(node_name, ""), why)


def _condition(pod: Json) -> Json:
    conditions = pod["status"].get("conditions", [])
    found: Json = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return found


def _settled(pods: Sequence[Json]) -> bool:
    return all(
        pod["spec"].get("nodeName") or _condition(pod).get("reason") in _STILL_WAITING
        for pod in pods
    )


def _pods(plane: ControlPlane) -> list[Json]:
    pods: list[Json] = plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return pods


def _zones(plane: ControlPlane) -> dict[str, str]:
    nodes = plane.request("GET", "/api/v1/nodes")["items"]
    return {each["metadata"]["name"]: each["metadata"]["labels"].get(ZONE, "") for each in nodes}


def _bound_lines(scheduler: RunningScheduler) -> dict[str, Json]:
    """Return py-scheduler's log lines about bound pods, by the pod's name."""
    return {line["pod"].partition("/")[2]: line for line in scheduler.lines("pod.bound")}


def _wait_for(ready: Callable[[], bool], what: str) -> None:
    until(ready, what, seconds=_SETTLE_SECONDS)


# How it is shown.


@dataclass(frozen=True)
class Screen:
    """Where the demo is shown: colour only on a terminal, ASCII where there is no UTF-8."""

    width: int = 100
    colour: bool = False
    unicode: bool = True

    @classmethod
    def on_stdout(cls) -> Screen:
        """Look at standard output and the environment."""
        terminal = sys.stdout.isatty()
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        width = shutil.get_terminal_size((100, 24)).columns if terminal else 100
        return cls(max(60, min(width, 140)), colour=terminal and not plain, unicode=utf8)

    def say(self, text: str = "") -> None:
        """Print *text* at once."""
        print(text if self.unicode else _ascii(text), flush=True)

    def title(self, text: str) -> None:
        """Print a heading."""
        self.say(f"\n{self.bold(text)}\n")

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print what was done and how long it took, once it is done."""
        began = time.monotonic()
        yield
        self.say(f"  {self.good('✓')} {text}  {self.dim(f'{time.monotonic() - began:.1f} s')}")

    def bold(self, text: str) -> str:
        """Make *text* stand out."""
        return self._paint("1", text)

    def dim(self, text: str) -> str:
        """Make *text* step back."""
        return self._paint("2", text)

    def good(self, text: str) -> str:
        """Green: it went well."""
        return self._paint("32", text)

    def bad(self, text: str) -> str:
        """Yellow: it waits."""
        return self._paint("33", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


def _ascii(text: str) -> str:
    for fancy, plain in (("✓", "+"), ("█", "#"), ("·", "."), ("…", "..."), ("─", "-")):
        text = text.replace(fancy, plain)
    return text


def _show(screen: Screen, plane: ControlPlane, scheduler: RunningScheduler) -> None:
    zones, pods = _zones(plane), _pods(plane)
    placed = {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}
    _wait_for(lambda: placed <= _bound_lines(scheduler).keys(), "log line about every bound pod")
    rows = [row_of(pod, zones, _bound_lines(scheduler)) for pod in pods]
    screen.say()
    for line in table(rows, screen):
        screen.say(line)
    screen.say()
    for line in spread(rows, "web-", screen):
        screen.say(line)
    screen.say()
    screen.say(counts(rows))


def table(rows: Sequence[Row], screen: Screen) -> Iterator[str]:
    """Draw one line for each pod, and more where the reason is long; bound ones come first."""
    ordered = sorted(rows, key=lambda row: (row.state != "bound", row.zone, row.node, row.pod))
    heads = ("pod", "state", "node", "zone")
    widths = [max(len(head), *(len(getattr(row, head)) for row in ordered)) + 2 for head in heads]
    left = sum(widths)
    yield screen.dim(_cells(heads, widths) + "why")
    for row in ordered:
        cells = _cells([getattr(row, head) for head in heads], widths)
        painted = cells.replace(
            f" {row.state} ", f" {(screen.good if row.node else screen.bad)(row.state)} ", 1
        )
        first, *more = textwrap.wrap(row.why, max(24, screen.width - left)) or [""]
        yield (painted + first).rstrip()
        for line in more:
            yield " " * left + line


def _cells(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(text.ljust(width) for text, width in zip(texts, widths, strict=True))


def spread(rows: Sequence[Row], prefix: str, screen: Screen) -> Iterator[str]:
    """Draw how many pods whose names begin with *prefix* each zone has."""
    found = Counter(row.zone for row in rows if row.zone and row.pod.startswith(prefix))
    zones = sorted({row.zone for row in rows if row.zone})
    yield f"{prefix}* over the zones, at most 1 apart:"
    for zone in zones:
        yield f"  {zone:<8}{screen.good('█' * 3 * found[zone])} {found[zone]}"


def counts(rows: Sequence[Row]) -> str:
    """Sum up the table."""
    found = Counter(row.state for row in rows)
    said = ", ".join(f"{found[state]} {state}" for state in ("bound", "waiting", "gated"))
    return f"{len(rows)} pods: {said}."


if __name__ == "__main__":
    sys.exit(main())
