"""What one decision costs: CPU of the cycle alone, by the kind of pod.

The cluster is full of pods of the same template as the pod that is decided about. That is the hard
case: their affinity, anti-affinity and spread constraints count as well. Between two decisions the
pod is placed, as it would be in a cluster, so that no decision meets an unchanged table.

Plain pods come first. The others are printed as multiples of their median: three are allowed.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Bind
from scheduler.framework.registry import Registry
from scheduler.framework.templates import Templates
from scheduler.model.pod import Pod
from scheduler.plugins import IN_TREE
from scheduler.testing import make_node, make_pod

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
ZONES: Final = 10
MEASURED: Final = "measured"
_LIST_BYTES: Final = 16 << 20
PLAIN: Final = "plain"


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of pod.

    Args:
        spec: What its template says beside requests and labels.
        running: How many of its own template are running already, out of all running pods.
        workloads: How many workloads there are beside it.
        alike: Whether those say the same, each of itself.
    """

    spec: Callable[[str], dict[str, Any]]
    running: float = 0.5
    workloads: int = 50
    alike: bool = False


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _plain(_: str) -> dict[str, Any]:
    return {}


def _required(side: str, key: str) -> Callable[[str], dict[str, Any]]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda app: {"affinity": {side: {required: [_term(app, key)]}}}


def _preferred(side: str, key: str) -> Callable[[str], dict[str, Any]]:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return lambda app: {
        "affinity": {side: {preferred: [{"weight": 10, "podAffinityTerm": _term(app, key)}]}}
    }


def _spread(action: str) -> Callable[[str], dict[str, Any]]:
    more = {"maxSkew": 5, "whenUnsatisfiable": action}
    return lambda app: {"topology_spread_constraints": [_term(app, ZONE) | more]}


CASES: Final = {
    PLAIN: Case(_plain),
    "hard spread over zones": Case(_spread("DoNotSchedule")),
    "soft spread over zones": Case(_spread("ScheduleAnyway")),
    "required affinity, zone": Case(_required("podAffinity", ZONE)),
    "preferred affinity, host": Case(_preferred("podAffinity", HOST)),
    "required anti-affinity, host": Case(_required("podAntiAffinity", HOST), 0.2),
    "preferred anti-affinity, host": Case(_preferred("podAntiAffinity", HOST)),
    "the same, 2,000 such workloads": Case(_preferred("podAntiAffinity", HOST), 0.01, 2000, True),
}


def _pod(case: Case, app: str, index: int) -> Pod:
    """Make one pod of a workload, decoded anew as the watch would."""
    says = case.spec(app) if case.alike or app == MEASURED else {}
    requests = {"cpu": "100m", "memory": "128Mi"}
    return make_pod(f"{app}-{index}", labels=f"app={app}", requests=requests, **says)


def cluster(case: Case, nodes: int, pods: int) -> ClusterCache:
    """Fill a cluster evenly, the pods of the template first."""
    cache = ClusterCache()
    for index in range(nodes):
        cache.add_node(make_node(f"node-{index}", zone=f"zone-{index % ZONES}"))
    for index in range(pods):
        own = index < pods * case.running
        pod = _pod(case, MEASURED if own else f"other-{index % case.workloads}", index)
        cache.add_pod(pod.on(f"node-{index % nodes}"))
    return cache


def decisions(
    case: Case, nodes: int, pods: int, count: int, *, warm: bool = False
) -> Iterator[float]:
    """Decide about *count* pods and place them, and yield the CPU seconds of each decision."""
    registry = Registry(IN_TREE)
    profile = registry.build(read().resolve(registry.available).profiles[0])
    cache = cluster(case, nodes, pods)
    templates = Templates() if warm else None
    for index in range(pods, pods + count):
        pod = _pod(case, MEASURED, index)
        pod.check()
        attempt = Attempt(profile, pod, cache.view(), {}, templates=templates)
        began = time.process_time()
        decision = decide(attempt)
        yield time.process_time() - began
        assert isinstance(decision, Bind), decision
        cache.assume(pod, decision.node)


def _age_the_heap() -> None:
    """Free something large, as every process does that has listed a cluster.

    From then on glibc keeps what is freed. Before, it returns the top of a heap as small as this to
    the kernel after every decision, and the next one pays for getting it back: a quarter of its
    time, of which the scheduler knows nothing.
    """
    np.empty(_LIST_BYTES, dtype=np.uint8).fill(0)


def main() -> None:
    """Measure every kind of pod and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--decisions", type=int, default=300)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--warm", action="store_true")
    asked = parser.parse_args()
    _age_the_heap()
    print(f"{asked.nodes} nodes, {asked.pods} pods running; CPU microseconds of one decision")
    print(f"{'':32}{'median':>8}{'p99':>8}{'first':>8}{'in plain pods':>15}")
    plain = 0.0
    for name, case in CASES.items():
        if asked.only in name or name == PLAIN:
            took = [
                1e6 * each
                for each in decisions(
                    case, asked.nodes, asked.pods, asked.decisions, warm=asked.warm
                )
            ]
            median, p99 = statistics.median(took), statistics.quantiles(took, n=100)[-1]
            plain = plain or median
            figures = f"{median:8.0f}{p99:8.0f}{took[0]:8.0f}{median / plain:15.2f}"
            print(f"{name:32}{figures}", flush=True)


if __name__ == "__main__":
    main()
