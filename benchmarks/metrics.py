"""What metrics cost: CPU of the real loop for each pod, with and without them.

The loop, the queue and all default plugins run around a simulated API server in virtual time; pods
come and are bound. Turns with metrics alternate with turns in which nobody counts or times
anything. Requests are simulated too, so what a request's metrics cost is measured by itself: a pod
is two requests, a binding and an event.
"""

import argparse
import sys
import time
from contextlib import AbstractContextManager
from typing import Any, Final

from scheduler.framework.observer import SILENT, Ending, Observer
from scheduler.observe.logs import configure
from scheduler.observe.metrics import Metrics
from scheduler.reporting.telemetry import Telemetry
from scheduler.testing import harness, make_node, make_pod
from scheduler.testing.clock import run
from scheduler.testing.harness import Harness

REQUESTS_A_POD: Final = 2


def _pass_over(*_: Any, **__: Any) -> None:
    """Record nothing."""


class Deaf(Telemetry):
    """Counts nothing and times nothing; what it logs and tells is the same."""

    def __init__(self, metrics: Metrics, *, server: str = "") -> None:
        super().__init__(metrics, server=server)
        for name, method in vars(Metrics).items():
            if callable(method) and not name.startswith("_") and name != "read":
                setattr(metrics, name, _pass_over)

    def cycle_observer(self, _profile: object) -> Observer:
        """Let nobody watch the cycle."""
        return SILENT

    def extension_point(self, point: str, _profile: object) -> AbstractContextManager[Ending]:
        """Time nothing."""
        return SILENT.extension_point(point)

    def applied(self, *_: Any) -> None:
        """Time nothing."""

    def pre_enqueue(self, _profile: str, ask: Any) -> Any:
        """Ask, and no more."""
        return ask()


async def _bind(nodes: int, pods: int) -> float:
    """Return the CPU seconds that it takes to bind *pods* pods that come at once."""
    async with Harness() as cluster:
        cluster.create(
            *(make_node(f"node-{index}", zone=f"z{index % 3}") for index in range(nodes))
        )
        await cluster.settle(1)
        described = [make_pod(f"pod-{index}", requests="100m cpu") for index in range(pods)]
        began = time.process_time()
        cluster.create(*described)
        await cluster.settle(60)
        used = time.process_time() - began
        assert all(cluster.node_of(pod) for pod in described)
        return used


def _loop_seconds(telemetry: type[Telemetry], nodes: int, pods: int) -> float:
    setattr(harness, "Telemetry", telemetry)  # noqa: B010 - the harness makes its own
    return run(_bind(nodes, pods)) / pods


def _request_seconds(times: int = 20_000) -> float:
    telemetry = Telemetry(Metrics(), server="https://127.0.0.1:6443")
    began = time.process_time()
    for _ in range(times):
        telemetry.request_waited("POST", 0.0)
        telemetry.request_done("POST", 201, 0.004)
        telemetry.request_sized("POST", 250, 60)
    return (time.process_time() - began) / times


def main() -> None:
    """Measure in turns and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=7)
    asked = parser.parse_args()
    configure("warning", "json", sys.stderr)
    with_metrics, without = [], []
    for _ in range(asked.turns):
        with_metrics.append(_loop_seconds(Telemetry, asked.nodes, asked.pods))
        without.append(_loop_seconds(Deaf, asked.nodes, asked.pods))
    # The quickest turn of each is the one that the machine disturbed least.
    whole = min(with_metrics)
    loop = whole - min(without)
    requests = min(_request_seconds() for _ in range(5)) * REQUESTS_A_POD
    print(
        f"CPU for each pod, {asked.nodes} nodes: {whole * 1e6:.0f} µs in the loop, metrics being "
        f"{loop * 1e6:.0f} µs of them ({loop / whole:.1%}); "
        f"metrics of its requests: {requests * 1e6:.0f} µs"
    )


if __name__ == "__main__":
    main()
