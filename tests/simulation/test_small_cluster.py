"""A small cluster with injected faults: the real scheduler, a faulty API server, others at work.

Once the faults are over, every pod that fits is bound, exactly once, and no node is overcommitted.
The seed is in the name of the test that fails: run that test again. Unlike `simulation`, this
scenario uses the scripted watches of the harness, which plugin authors also use.
"""

import asyncio
import random

import pytest

from scheduler.errors import Conflict, Throttled, Unreachable
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import run
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay, Lose, Refuse, SimulatedApi

FAULT_SECONDS = 60
QUIET_SECONDS = 400
CPU = 8


class FaultInjector:
    """The events of the cluster, drawn from *seed*."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.active = True
        self.api = SimulatedApi(
            latency=lambda: self.rng.uniform(0.0, 0.05),
            lag=lambda: self.rng.uniform(0.0, 0.3) if self.active else 0.01,
        )
        self.api.choose_fault = self.choose_fault
        self.api.grace_seconds = 2.0
        self.made = 0
        self.nodes = {}

    def choose_fault(self, method, path):
        if not self.active or self.rng.random() < 0.6:
            return None
        return self.rng.choice(
            [
                Lose(executed=True),
                Lose(executed=True, after_seconds=self.rng.uniform(0.0, 50.0)),
                Lose(executed=False),
                Delay(self.rng.uniform(0.0, 3.0)),
                Refuse(Throttled("slow down", retry_after_seconds=self.rng.uniform(0.1, 2.0))),
                Refuse(Unreachable("500", status=500)),
                Refuse(Unreachable("503", status=503)),
                *([Refuse(Conflict("conflict", status=409))] if method == "PATCH" else []),
            ]
        )

    def add_node(self):
        name = f"node-{self.made}"
        self.made += 1
        self.nodes[name] = node = make_node(name, allocatable=f"{CPU} cpu, 20 pods")
        self.api.create(node)

    def add_pod(self):
        self.made += 1
        self.api.create(
            make_pod(
                f"pod-{self.made}",
                requests=f"{self.rng.choice([250, 500, 1000])}m cpu",
                priority=self.rng.randrange(3),
                host_ports=[8080] if self.rng.random() < 0.1 else [],
            )
        )

    def some_pod(self):
        pods = list(self.api.pods())
        return self.rng.choice(pods) if pods else None

    def inject(self):
        """Let one event happen."""
        api, rng = self.api, self.rng
        match rng.choice(["pod"] * 9 + ["delete", "steal", "recreate", "gap", "touch", "nominate"]):
            case "pod":
                self.add_pod()
            case "delete" if pod := self.some_pod():
                path = _path(pod)
                if pod["spec"].get("nodeName") or rng.random() < 0.5:
                    api.remove(path)
                elif not pod["metadata"].get("deletionTimestamp"):
                    api.begin_deletion(path)
            case "recreate" if pod := self.some_pod():
                api.remove(_path(pod))
                self.made += 1
                api.create(
                    make_pod(pod["metadata"]["name"], uid=f"again-{self.made}", requests="500m cpu")
                )
            case "steal" if pod := self.some_pod():
                # Another scheduler binds a pod of ours, to a node with much room.
                node = min(self.nodes, key=self.taken)
                free = not pod["spec"].get("nodeName") and not _wants_port(pod)
                if free and self.taken(node) < CPU / 3 * 1000:
                    api.bound.append((pod["metadata"]["uid"], node))
                    api.change(_path(pod), lambda d: d["spec"].update(nodeName=node))
            case "gap":
                resource = rng.choice([Resource.POD, Resource.NODE])
                api.break_watch(resource)
                asyncio.get_running_loop().call_later(rng.uniform(0.1, 4.0), api.relist, resource)
            case "touch" if pod := self.some_pod():
                api.change(_path(pod), lambda d: d["metadata"]["labels"].update(t=str(self.made)))
            case "nominate" if pod := self.some_pod():
                if not pod["spec"].get("nodeName"):
                    node = rng.choice(sorted(self.nodes))
                    api.change(_path(pod), lambda d: d["status"].update(nominatedNodeName=node))

    def taken(self, node):
        return sum(_cpu(pod) for pod in self.api.pods() if pod["spec"].get("nodeName") == node)


def _path(document):
    metadata = document["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _cpu(document):
    return int(document["spec"]["containers"][0]["resources"]["requests"]["cpu"].rstrip("m"))


def _wants_port(document):
    return bool(document["spec"]["containers"][0].get("ports"))


async def inject_then_settle(seed):
    injector = FaultInjector(seed)
    for _ in range(injector.rng.randint(3, 8)):
        injector.add_node()
    async with Harness(api=injector.api, seed=seed) as cluster:
        for _ in range(FAULT_SECONDS * 3):
            if len(list(injector.api.pods())) < 18 * len(injector.nodes):
                injector.inject()
            await cluster.settle(injector.rng.uniform(0.0, 0.6))
            cluster.check_invariants()
        injector.active = False
        await cluster.settle(5)
        injector.api.list_all()
        await cluster.settle(QUIET_SECONDS)
        check_at_rest(injector, cluster)


def check_at_rest(injector, cluster):
    """Check the cluster once nothing happens any more."""
    uids = [uid for uid, _ in injector.api.bound]
    assert len(uids) == len(set(uids)), "a pod was bound twice"

    for node in injector.nodes:
        assert injector.taken(node) <= CPU * 1000, f"{node} is overcommitted"
        ports = sum(
            _wants_port(pod) for pod in injector.api.pods() if pod["spec"].get("nodeName") == node
        )
        assert ports <= 1, f"two pods want the same port of {node}"

    known = {queued.pod.uid for queued in cluster.core.queue}
    core = cluster.core
    for pod in injector.api.pods():
        uid, terminating = pod["metadata"]["uid"], pod["metadata"].get("deletionTimestamp")
        if node := pod["spec"].get("nodeName"):
            assert core.cache.pod(uid).node_name == node, f"{uid} is not known where it is"
            assert core.queue.state_of(uid) is None, f"{uid} waits although it is bound"
        elif not terminating:
            assert uid in known, f"{uid} was lost"
            assert not _fits_somewhere(injector, pod), str(core.queue.find(uid))
    assert core.binding.in_flight == 0
    assert list(core.cache.assumed()) == []
    assert core.queue.in_flight_counts()["PodPopped"] == 0
    assert core.cache.sizes()["pods"] == sum(
        bool(pod["spec"].get("nodeName")) for pod in injector.api.pods()
    )


def _fits_somewhere(injector, pod):
    """Return whether a node could take *pod*; pods with host ports are not judged."""
    if _wants_port(pod):
        return False
    nominated = any(p.get("status", {}).get("nominatedNodeName") for p in injector.api.pods())
    return not nominated and any(
        injector.taken(node) + _cpu(pod) <= CPU * 1000
        and sum(p["spec"].get("nodeName") == node for p in injector.api.pods()) < 20
        for node in injector.nodes
    )


@pytest.mark.parametrize("seed", range(20))
def test_everything_comes_right_in_the_end(seed):
    run(inject_then_settle(seed))
