"""Failovers on a real control plane: leaders are killed, paused and replaced, under load.

``python -m hack.failovers`` kills twenty leaders with the product's own lease times, pauses one
until its lease has expired, and passes one lease back and forth between us and kube-scheduler. The
API server's audit log must show that each pod is bound once, and that no replica begins a binding
after another one leads.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hack.audit import BINDINGS, AuditLog
from hack.control_plane import ControlPlane
from hack.nodes import add_nodes, nodes
from hack.ports import PortClaims
from hack.running_scheduler import RunningScheduler
from hack.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.processes import Process

NAMESPACE: Final = "failovers"
LEASE: Final = "failovers"
_LEASE_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{LEASE}"
_PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_DEADLINE_SECONDS: Final = 90.0


@dataclass(frozen=True)
class Times:
    """The times of the lease; the defaults are the product's."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def document(self) -> dict[str, Any]:
        """Describe them as a configuration's leaderElection."""
        return {
            "leaderElect": True,
            "resourceName": LEASE,
            "resourceNamespace": "kube-system",
            "leaseDuration": f"{self.lease:g}s",
            "renewDeadline": f"{self.renew:g}s",
            "retryPeriod": f"{self.retry * 1000:.0f}ms",
        }


@dataclass(frozen=True)
class Binding:
    """A binding that reached the API server, from its audit log."""

    user: str
    pod: str
    began_at: float
    code: int


@dataclass(frozen=True)
class Takeover:
    """How long after a leader was killed another led, and bound its first pod.

    Args:
        lease_seconds: From the kill until another led.
        binding_seconds: From the kill until that one's first binding.
        renewal_seconds: From the killed leader's last renewal until another led.
    """

    lease_seconds: float
    binding_seconds: float
    renewal_seconds: float


class Replica:
    """One py-scheduler with a user name of its own, by which the audit log identifies it."""

    def __init__(self, user: str, scheduler: RunningScheduler) -> None:
        self.user = user
        self.scheduler = scheduler

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return its log lines with that name."""
        return self.scheduler.lines(event)

    def leads(self) -> bool:
        """Return whether it has ever led."""
        return bool(self.lines("lease.acquired"))

    def awaits(self) -> bool:
        """Return whether it has read the lease while another held it."""
        return bool(self.lines("lease.awaited"))

    def has_bound(self) -> bool:
        """Return whether it has bound more than a few pods."""
        return len(self.lines("pod.bound")) > 5

    def stop(self) -> int:
        """Stop it; return its exit code."""
        return self.scheduler.stop()


class Arena:
    """A control plane with nodes, an audit log, a steady load, and replicas on demand."""

    def __init__(self, times: Times, *, pods_per_second: float) -> None:
        self.times = times
        self.created = 0
        self._pause_seconds = 1 / pods_per_second
        self._numbers = itertools.count(1)
        self._ending = threading.Event()
        self._reserved: list[int] = []
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as starting:
            directory = Path(starting.enter_context(tempfile.TemporaryDirectory()))
            self._audit = AuditLog(directory, BINDINGS)
            self.plane = starting.enter_context(ControlPlane(apiserver_flags=self._audit.flags))
            self.plane.create_namespace(NAMESPACE)
            described = nodes(20, cpu="100", memory="400Gi", pods=1000, kwok=False)
            add_nodes(self.plane.admin_kubeconfig, described)
            self._ports = PortClaims()
            starting.callback(self._ports.release)
            self._writer = threading.Thread(target=self._write_pods)
            self._exits = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_load()
        self._exits.close()

    # Load.

    def begin_load(self) -> None:
        """Create pods at a steady pace from now on."""
        self._writer.start()

    def end_load(self) -> None:
        """Create no more pods."""
        self._ending.set()
        if self._writer.ident is not None:
            self._writer.join()

    def _write_pods(self) -> None:
        while not self._ending.wait(self._pause_seconds):
            self.write_pod(f"pod-{self.created:06}")
            self.created += 1

    def write_pod(self, name: str, **requests: str) -> None:
        """Create a pod that asks for *requests*."""
        container = {"name": "main", "image": "example", "resources": {"requests": requests}}
        spec = {"schedulerName": "py-scheduler", "containers": [container]}
        self.plane.request("POST", _PODS_PATH, {"metadata": {"name": name}, "spec": spec})

    # Replicas.

    def reserve(self, count: int) -> list[int]:
        """Return the ports at which the next *count* replicas will serve their metrics."""
        self._reserved += [self._ports.claim() for _ in range(count)]
        return list(self._reserved)

    def start(self) -> Replica:
        """Start a replica, which may become the leader."""
        user = f"replica-{next(self._numbers)}"
        scheduler = RunningScheduler(
            self.plane,
            name=user,
            config={"leaderElection": self.times.document()},
            kubeconfig=self.plane.kubeconfig_for(user, ["system:masters"]),
            port=self._reserved.pop(0) if self._reserved else 0,
            secure=True,
        )
        # Killed replicas too: their ports are claimed until then.
        self._exits.callback(scheduler.stop)
        scheduler.start()
        # Pods and nodes: a standby that has both takes over without a list.
        scheduler.process.wait_until(
            lambda: len(scheduler.lines("watch.synced")) >= 2, "reading the cluster"
        )
        return Replica(user, scheduler)

    def holder(self) -> str:
        """Return the holder of the lease; empty if it is free."""
        with contextlib.suppress(Exception):
            return str(self._record().get("holderIdentity") or "")
        return ""

    def renewed_at(self) -> float:
        """Return when the holder last renewed the lease, as it says itself."""
        return datetime.fromisoformat(self._record()["renewTime"]).timestamp()

    def _record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.request("GET", _LEASE_PATH)["spec"]
        return found

    # Results.

    def bindings(self) -> list[Binding]:
        """Return every binding that has reached the API server, in the order of their ends."""
        return [_binding(entry) for entry in self._audit.entries()]

    def unbound(self) -> list[str]:
        """Return the pods that have no node."""
        pods = self.plane.request("GET", _PODS_PATH)["items"]
        return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]

    def check_that_all_are_bound_once(self) -> int:
        """Wait until every pod has a node, and return how many there are.

        Raises:
            AssertionError: Some pod was bound twice, or not at all.
        """
        self.end_load()
        _until(lambda: not self.unbound(), "every pod is bound")
        succeeded = Counter(each.pod for each in self.bindings() if each.code == 201)
        assert set(succeeded.values()) == {1}, f"bound twice: {succeeded.most_common(3)}"
        assert len(succeeded) == self.created, (len(succeeded), self.created)
        return self.created


def _binding(entry: dict[str, Any]) -> Binding:
    return Binding(
        entry["user"]["username"],
        entry["objectRef"]["name"],
        datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp(),
        entry["responseStatus"]["code"],
    )


def _until(holds: Callable[[], Any], what: str) -> None:
    until(holds, what, seconds=_DEADLINE_SECONDS)


# The three scenarios.


def kills(arena: Arena, count: int, rng: random.Random) -> Iterator[Takeover]:
    """Kill *count* leaders, each at another moment between two renewals; yield what followed."""
    leader = arena.start()
    _until(leader.leads, "the first replica leads")
    standby = arena.start()
    for _ in range(count):
        _until(standby.awaits, "the standby knows the lease")
        # Not for anything to happen: the moment of the kill is drawn, between two renewals.
        time.sleep(arena.times.retry * (1 + rng.random()))
        killed_at = time.time()
        leader.scheduler.kill()
        renewed_at = arena.renewed_at()
        _until(standby.leads, "the standby leads")
        _until(standby.has_bound, "it binds")
        led_at = _stamp(standby.lines("lease.acquired")[0])
        yield Takeover(
            led_at - killed_at, _first_binding(arena, standby) - killed_at, led_at - renewed_at
        )
        leader, standby = standby, arena.start()
    leader.stop()
    standby.stop()


def pause(arena: Arena) -> float:
    """Pause the leader past its lease, resume it, and return after how long another led.

    Raises:
        AssertionError: It began a binding afterwards, or did not end with code 1.
    """
    leader = arena.start()
    _until(leader.leads, "the first replica leads")
    standby = arena.start()
    _until(leader.has_bound, "the load has begun")
    stopped_at = time.time()
    leader.scheduler.process.signal(signal.SIGSTOP)
    _until(standby.has_bound, "the standby binds")
    went_on_at = time.time()
    leader.scheduler.process.signal(signal.SIGCONT)
    code = leader.scheduler.process.wait(30)
    assert code == 1, f"the paused leader ended with {code}"
    late = [
        each for each in arena.bindings() if each.user == leader.user and each.began_at > went_on_at
    ]
    assert not late, f"the paused leader began {len(late)} bindings when it went on"
    standby.stop()
    return _stamp(standby.lines("lease.acquired")[0]) - stopped_at


def relays(arena: Arena) -> Iterator[tuple[str, float]]:
    """Pass the lease back and forth between kube-scheduler and us; yield how, and the seconds."""
    theirs = _start_kube_scheduler(arena, 1)
    _until(arena.holder, "kube-scheduler leads")
    ours = arena.start()
    before = arena.holder()
    yield "kube-scheduler is killed, we take over", _handover(arena, theirs.kill, before)
    _until(ours.leads, "it is us")
    theirs = _start_kube_scheduler(arena, 2)
    before = arena.holder()
    yield "we are killed, kube-scheduler takes over", _handover(arena, ours.scheduler.kill, before)
    ours = arena.start()
    before = arena.holder()
    yield "kube-scheduler stops, we take over", _handover(arena, theirs.stop, before)
    _until(ours.leads, "it is us")
    theirs = _start_kube_scheduler(arena, 3)
    before = arena.holder()
    yield "we stop, kube-scheduler takes over", _handover(arena, ours.stop, before)
    theirs.stop()


def _handover(arena: Arena, end: Callable[[], object], before: str) -> float:
    """End the leader *before*, and return how long it took until another held the lease."""
    # The other must have read the record, or it waits for a whole lease from its first read. It may
    # be kube-scheduler, which does not log that; it reads every 1 to 2.2 retry periods.
    time.sleep(arena.times.retry * 2.5)
    began = time.monotonic()
    end()
    _until(lambda: arena.holder() not in {"", before}, "another holds the lease")
    return time.monotonic() - began


def _start_kube_scheduler(arena: Arena, number: int) -> Process:
    config = {"leaderElection": arena.times.document()}
    return arena.plane.start_kube_scheduler(config, name=f"kube-scheduler-{number}")


def _stamp(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["time"]).timestamp()


def _first_binding(arena: Arena, replica: Replica) -> float:
    return min(each.began_at for each in arena.bindings() if each.user == replica.user)


def main() -> None:
    """Run all scenarios and print their figures; the last line sums them up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pods-per-second", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    times = Times()
    found = []
    with Arena(times, pods_per_second=options.pods_per_second) as arena:
        arena.begin_load()
        for number, each in enumerate(kills(arena, options.kills, random.Random(options.seed)), 1):
            found.append(each)
            print(
                f"kill {number}: led after {each.lease_seconds:.1f} s, "
                f"{each.renewal_seconds:.2f} s after the last renewal; "
                f"first binding after {each.binding_seconds:.1f} s",
                flush=True,
            )
        print(
            f"pause: replaced after {pause(arena):.1f} s; began no binding, ended with 1",
            flush=True,
        )
        for how, seconds in relays(arena):
            print(f"{how}: {seconds:.1f} s", flush=True)
        survivor = arena.start()
        pods = arena.check_that_all_are_bound_once()
        survivor.stop()
    print(summary(found, times, pods))


def summary(found: list[Takeover], times: Times, pods: int) -> str:
    """Sum up, in seconds and in lease durations."""
    took = [each.binding_seconds for each in found]
    least, middle, most = min(took), statistics.median(took), max(took)
    return (
        f"{len(found)} leaders killed: first binding after {least:.1f}, {middle:.1f}, {most:.1f} s "
        f"(min, median, max), {least / times.lease:.2f}, {middle / times.lease:.2f}, "
        f"{most / times.lease:.2f} lease durations; led {_span(found)} s after the last renewal; "
        f"{pods} pods, each bound once"
    )


def _span(found: list[Takeover]) -> str:
    seconds = [each.renewal_seconds for each in found]
    return f"{min(seconds):.2f} to {max(seconds):.2f}"


if __name__ == "__main__":
    main()
