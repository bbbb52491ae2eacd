"""One seed, one run: the real scheduler under injected faults, checked after every step.

::

    outcome = simulate(seed=7)
    assert not outcome.violation, outcome.report()

Reflectors, loop, cache, queue, cycle, binding and evictions are the real ones; the clock is virtual
and everything that happens is drawn from the seed, so the same seed is the same run. The scheduler
may be killed at any await point and started again.
"""

import asyncio
import hashlib
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.cluster_event import NODE, Action, ClusterEvent, Requeue
from scheduler.framework.decision import Bind
from scheduler.framework.profile import Profile
from scheduler.framework.registry import Registry
from scheduler.framework.rejection import Allow, Wait
from scheduler.kube.decode import ObjectDecoder, Unreadable
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.trust import NODE_DISTRUST
from scheduler.plugins import IN_TREE
from scheduler.queue.queue_settings import QueueSettings
from scheduler.testing import clock
from scheduler.testing.documents import Document, encode
from scheduler.testing.harness import with_plugins
from scheduler.testing.simulated_api import Request
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.scheduler_process import SchedulerProcess
from tests.simulation.workload import DOOR, OURS

FEWEST_STEPS: Final = 100
MOST_STEPS: Final = 300
_NEVER: Final = 1e9
_QUIET_SECONDS: Final = 200.0
_QUIET_SECONDS_WITH_FLUSH: Final = 420.0
_DOOR_WAIT_SECONDS: Final = 2.0
_KILL_PROBABILITY_PER_STEP: Final = 0.015
"""How likely a step is to be one during which the process is killed."""
_KILL_PROBABILITY_PER_REQUEST: Final = 0.01
_PROFILES: Final = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {OURS[0]}
- schedulerName: {OURS[1]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated}}}}
  - name: DefaultPreemption
    args: {{preemptForeignPods: false}}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went.

    Args:
        kinds: How often each kind of fault happened.
        killed_at: The functions and lines at which the scheduler was killed.
        digest: Of everything that happened: equal for a replay.
        decisions: A digest of the requests that changed something, in order, without their times.
        violation: The broken invariant, with the journal of the pods concerned; empty if none.
    """

    seed: int
    steps: int
    kinds: Mapping[str, int]
    killed_at: tuple[str, ...]
    digest: str
    violation: str = ""
    decisions: str = ""

    @property
    def faults(self) -> int:
        """How many faults there were."""
        return sum(self.kinds.values())

    def report(self) -> str:
        """Describe the violation and the command that repeats the run."""
        again = f"make simulation SIMULATION_ARGS='--seed {self.seed}'"
        return f"seed {self.seed}, step {self.steps}: {self.violation}\nagain: {again}"


def simulate(seed: int, *, most_steps: int = MOST_STEPS, kills: bool = True) -> Outcome:
    """Run the simulation of *seed*; without *kills* the process is never killed."""
    return clock.run(_Simulation(seed, most_steps, kills=kills).run())


class WaitAtDoor:
    """Permit plugin: pods wait at a node whose label says that its door is shut, until a timeout.

    The label is read once, in `permit`: a door that opens later helps only the pod's next attempt,
    so that nothing but an event recorded in flight brings the pod back.

    Args:
        known: Returns a node as the scheduler last saw it. The API server's version would not do:
            the label may have changed twice while no watch was open.
    """

    # The name is part of condition messages, and so of the digest of all decisions.
    name = "Doorman"
    requeue_on = (Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),)

    def __init__(self, known: Callable[[str], Node | None]) -> None:
        self._known = known

    def permit(self, pod: Pod, node: str, waiting: Any) -> Allow | Wait:
        """Allow pods that need no door or find it open."""
        there = self._known(node)
        shut = there is not None and there.metadata.labels.get(DOOR) == "shut"
        is_waiting = any(each.uid == pod.uid for each in waiting)
        if DOOR not in pod.labels or not (shut or is_waiting):
            return Allow()
        return Wait(_DOOR_WAIT_SECONDS)


class _Simulation:
    """One run.

    Args:
        most_steps: The most steps with faults, before the cluster is left to settle.
        kills: Whether the process is killed at times. Where depends on the number of await points,
            so only runs without kills can be compared across changes of the code.
    """

    def __init__(self, seed: int, most_steps: int, *, kills: bool) -> None:
        self._seed = seed
        self._kills = kills
        self._rng = random.Random(seed)
        self._most_steps = most_steps
        self._steps = 0
        self._injector: FaultInjector
        self._process: SchedulerProcess
        self._profiles: tuple[Profile, ...]
        self._decided: set[tuple[str, str]] = set()
        self._bound: dict[str, str] = {}
        self._killed_at: list[str] = []
        self._restart_at: float | None = None

    async def run(self) -> Outcome:
        """Inject faults, let the cluster settle, and check what is left."""
        self._injector = FaultInjector(self._rng)
        flushes = self._rng.random() < 0.25
        # Without the flush a pod that misses its event stays pending, and the run shows it.
        seconds = 300.0 if flushes else _NEVER
        self._queue = QueueSettings(unschedulable_seconds=seconds)
        permit_plugin = WaitAtDoor(self._known_node)
        self._profiles = tuple(with_plugins(profile, permit_plugin) for profile in _profiles())
        violation = ""
        await self._start_process()
        try:
            await self._inject_faults()
            await self._settle(_QUIET_SECONDS_WITH_FLUSH if flushes else _QUIET_SECONDS)
        except Exception as problem:  # noqa: BLE001 - a bug that ends the loop is a violation
            violation = self._describe(problem)
        self._process.end()
        lines = repr(list(self._injector.journal)).encode()
        digest = hashlib.sha256(lines).hexdigest()[:16]
        kinds = dict(self._injector.faults)
        decisions = _digest_of(self._injector.api.requests)
        killed_at = tuple(self._killed_at)
        return Outcome(self._seed, self._steps, kinds, killed_at, digest, violation, decisions)

    async def _start_process(self) -> None:
        self._restart_at = None
        self._process = SchedulerProcess(
            self._injector, self._profiles, self._queue, self._seed, self._draw_kill, self._on_kill
        )
        await self._process.begin()

    def _known_node(self, node: str) -> Node | None:
        return self._process.checker.nodes.get(node)

    def _draw_kill(self) -> int | None:
        """Draw after how many steps the process that makes a request now is killed."""
        rng = self._rng
        may_kill = self._kills and self._injector.active
        is_killed = may_kill and rng.random() < _KILL_PROBABILITY_PER_REQUEST
        return rng.randrange(6) if is_killed else None

    def _on_kill(self, where: str) -> None:
        self._injector.faults["scheduler killed"] += 1
        self._killed_at.append(where)
        self._decided |= self._process.checker.decided
        now = asyncio.get_running_loop().time()
        self._restart_at = now + self._rng.uniform(0.0, 4.0)

    async def _inject_faults(self) -> None:
        rng = self._rng
        for _ in range(rng.randint(min(FEWEST_STEPS, self._most_steps), self._most_steps)):
            self._injector.inject()
            may_kill = self._kills and rng.random() < _KILL_PROBABILITY_PER_STEP
            if may_kill and self._restart_at is None:
                self._process.kill_after(rng.randrange(40))
            await self._step(rng.choice([0.0, 0.01, 0.1, rng.uniform(0.0, 1.0)]))
        self._process.cancel_kill()
        self._injector.end()

    async def _settle(self, seconds: float) -> None:
        for _ in range(10):
            await self._step(seconds / 10)
        self._process.checker.check_at_rest(self._process.harness.core)
        self._check_placed()

    async def _step(self, seconds: float) -> None:
        self._steps += 1
        self._injector.controllers.run_once()
        if self._restart_at is not None and self._restart_at <= asyncio.get_running_loop().time():
            await self._start_process()
        if self._restart_at is not None:
            await asyncio.sleep(seconds)
            return
        process = self._process
        await asyncio.wait((process.harness.running,), timeout=seconds)
        if process.broken is not None:
            raise process.broken
        self._check_bindings()
        if not process.ended:
            await process.harness.settle(0.0)
        if not process.ended:
            process.harness.check_invariants()
            process.checker.check(process.harness.core)

    # Invariants.

    def _check_bindings(self) -> None:
        """Assert that no pod was bound twice since the last step, or without a decision."""
        bound = self._injector.api.bound
        known = self._decided | self._process.checker.decided | self._injector.bound_by_others
        for uid, node in bound[len(self._bound) :]:
            assert uid not in self._bound, f"{uid} was bound twice"
            assert (uid, node) in known, f"{uid} is bound to {node} without a decision"
            self._bound[uid] = node

    def _check_placed(self) -> None:
        """Assert that the pure cycle would bind none of the pending pods in the true cluster."""
        cache = ClusterCache()
        for node in self._injector.nodes():
            cache.add_node(_read(Resource.NODE, node))
        nominated: dict[str, list[Pod]] = {}
        for document in self._injector.pods():
            pod = _read(Resource.POD, document)
            if pod.node_name:
                cache.add_pod(pod)
            elif pod.nominated_node:
                nominated.setdefault(pod.nominated_node, []).append(pod)
        for distrust in self._process.harness.core.cache.view().objects.all(NODE_DISTRUST):
            cache.put(NODE_DISTRUST, distrust)
        profiles = {profile.scheduler_name: profile for profile in self._profiles}
        for document in self._injector.pending():
            pod = _read(Resource.POD, document)
            profile = profiles[pod.spec.scheduler_name]
            decision = decide(Attempt(profile, pod, cache.view(), nominated))
            if isinstance(decision, Bind):
                queued = self._process.harness.core.queue.find(pod.uid)
                state = str(queued) if queued else f"{pod.key} is in no queue"
                raise AssertionError(  # noqa: TRY004 - no type is wrong
                    f"{pod.key} would go to {decision.node}, but: {state}"
                )

    def _describe(self, problem: Exception) -> str:
        text = f"{type(problem).__name__}: {problem}"
        journal = self._injector.journal
        concerned = {subject for _, subject, _ in journal if re.search(rf"\b{subject}\b", text)}
        return f"{text}\n{journal.lines_about(concerned | {'scheduler', 'watches'})}"


def _digest_of(requests: Iterable[Request]) -> str:
    """Return a digest of what the scheduler decided, as the API server saw it.

    Times are left out, and with them events, which carry several.
    """
    digest = hashlib.sha256()
    for each in requests:
        if each.method != "GET" and "/events" not in each.path:
            content = each.content if each.body else {}
            for condition in content.get("status", {}).get("conditions", ()):
                condition.pop("lastTransitionTime", None)
            digest.update(f"{each.method} {each.path} {sorted(content.items())!r}\n".encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _profiles() -> tuple[Profile, ...]:
    """Return the profiles, without the permit plugin of one run."""
    registry = Registry(IN_TREE)
    return tuple(map(registry.build, read(_PROFILES).resolve(registry.available).profiles))


def _read(resource: Resource, document: Document) -> Any:
    item = ObjectDecoder(WATCHED[resource]).item(msgspec.Raw(encode(document)))
    assert not isinstance(item, Unreadable)
    return item
