"""One seed, one run: the real scheduler in a storm, watched at every step.

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
from scheduler.kube.decode import Decoder, Unreadable
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.trust import NODE_DISTRUST
from scheduler.plugins import IN_TREE
from scheduler.queue.queue_settings import QueueSettings
from scheduler.testing import clock
from scheduler.testing.documents import Document, encode
from scheduler.testing.fault_injector import FaultInjector
from scheduler.testing.harness import with_plugins
from scheduler.testing.scheduler_process import SchedulerProcess
from scheduler.testing.simulated_api import Request
from scheduler.testing.workload import DOOR, OURS

FEWEST_STEPS: Final = 100
MOST_STEPS: Final = 300
_NEVER: Final = 1e9
_REST_SECONDS: Final = 200.0
_REST_SECONDS_WITH_FLUSH: Final = 420.0
_DOORMAN_SECONDS: Final = 2.0
_DEATHS: Final = 0.015
"""How likely a step is to be one during which the process is killed."""
_DEATHS_BY_REQUEST: Final = 0.01
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
        deaths: Where the scheduler was killed.
        digest: Of everything that happened: equal for a replay.
        decisions: A digest of the requests that changed something, in order, without their times.
        violation: What was broken, with the stories of the pods concerned; empty mostly.
    """

    seed: int
    steps: int
    kinds: Mapping[str, int]
    deaths: tuple[str, ...]
    digest: str
    violation: str = ""
    decisions: str = ""

    @property
    def faults(self) -> int:
        """How many faults there were."""
        return sum(self.kinds.values())

    def report(self) -> str:
        """Tell what went wrong and how to see it again."""
        again = f"make simulation SIMULATION_ARGS='--seed {self.seed}'"
        return f"seed {self.seed}, step {self.steps}: {self.violation}\nagain: {again}"


def simulate(seed: int, *, most_steps: int = MOST_STEPS, kills: bool = True) -> Outcome:
    """Run the simulation of *seed*; without *kills* the scheduler's process never dies."""
    return clock.run(_Simulation(seed, most_steps, kills=kills).run())


class Doorman:
    """Lets pods wait at the doors of nodes, and turns them away when a door stays shut.

    It looks at a door once, when a pod comes: a door that opens meanwhile helps only whoever
    comes again, so that nothing but the event in flight brings the pod back.

    Args:
        told: Tells of a node what was told last. Whether a door was open in truth is beyond
            everybody: it may have been shut and opened again while no watch was there to see it.
    """

    name = "Doorman"
    requeue_on = (Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),)

    def __init__(self, told: Callable[[str], Node | None]) -> None:
        self._told = told

    def permit(self, pod: Pod, node: str, waiting: Any) -> Allow | Wait:
        """Allow who needs no door or finds it open."""
        there = self._told(node)
        shut = there is not None and there.metadata.labels.get(DOOR) == "shut"
        is_waiting = any(each.uid == pod.uid for each in waiting)
        if DOOR not in pod.labels or not (shut or is_waiting):
            return Allow()
        return Wait(_DOORMAN_SECONDS)


class _Simulation:
    """One run.

    Args:
        most_steps: How many steps there are at most before the storm is over.
        kills: Whether the process may die. Where it dies depends on the number of await points, so
            only runs without kills can be compared across changes of the code.
    """

    def __init__(self, seed: int, most_steps: int, *, kills: bool) -> None:
        self._seed = seed
        self._kills = kills
        self._rng = random.Random(seed)  # noqa: S311 - drawn again, not guessed
        self._most_steps = most_steps
        self._steps = 0
        self._storm: FaultInjector
        self._life: SchedulerProcess
        self._profiles: tuple[Profile, ...]
        self._decided: set[tuple[str, str]] = set()
        self._bound: dict[str, str] = {}
        self._deaths: list[str] = []
        self._reborn_at: float | None = None

    async def run(self) -> Outcome:
        """Ride out the storm and look around."""
        self._storm = FaultInjector(self._rng)
        flushes = self._rng.random() < 0.25
        # Where nothing is ever flushed, whoever is forgotten stays so.
        seconds = 300.0 if flushes else _NEVER
        self._queue = QueueSettings(unschedulable_seconds=seconds)
        doorman = Doorman(self._told_of)
        self._profiles = tuple(with_plugins(profile, doorman) for profile in _profiles())
        violation = ""
        await self._be_born()
        try:
            await self._ride_out()
            await self._rest(_REST_SECONDS_WITH_FLUSH if flushes else _REST_SECONDS)
        except Exception as problem:  # noqa: BLE001 - a bug that ends the loop is a violation
            violation = self._tell(problem)
        self._life.die()
        lines = repr(list(self._storm.journal)).encode()
        digest = hashlib.sha256(lines).hexdigest()[:16]
        kinds = dict(self._storm.faults)
        decisions = _digest_of(self._storm.api.requests)
        deaths = tuple(self._deaths)
        return Outcome(self._seed, self._steps, kinds, deaths, digest, violation, decisions)

    async def _be_born(self) -> None:
        self._reborn_at = None
        self._life = SchedulerProcess(
            self._storm, self._profiles, self._queue, self._seed, self._doom, self._mourn
        )
        await self._life.begin()

    def _told_of(self, node: str) -> Node | None:
        return self._life.witness.nodes.get(node)

    def _doom(self) -> int | None:
        """Draw after how many steps the process dies that makes a request now."""
        rng = self._rng
        dies = self._kills and self._storm.blows and rng.random() < _DEATHS_BY_REQUEST
        return rng.randrange(6) if dies else None

    def _mourn(self, where: str) -> None:
        self._storm.faults["scheduler killed"] += 1
        self._deaths.append(where)
        self._decided |= self._life.witness.decided
        now = asyncio.get_running_loop().time()
        self._reborn_at = now + self._rng.uniform(0.0, 4.0)

    async def _ride_out(self) -> None:
        rng = self._rng
        for _ in range(rng.randint(min(FEWEST_STEPS, self._most_steps), self._most_steps)):
            self._storm.strike()
            if self._kills and rng.random() < _DEATHS and self._reborn_at is None:
                self._life.kill_after(rng.randrange(40))
            await self._step(rng.choice([0.0, 0.01, 0.1, rng.uniform(0.0, 1.0)]))
        self._life.spare()
        self._storm.end()

    async def _rest(self, seconds: float) -> None:
        for _ in range(10):
            await self._step(seconds / 10)
        self._life.witness.check_at_rest(self._life.harness.core)
        self._check_placed()

    async def _step(self, seconds: float) -> None:
        self._steps += 1
        self._storm.controllers.come_round()
        if self._reborn_at is not None and self._reborn_at <= asyncio.get_running_loop().time():
            await self._be_born()
        if self._reborn_at is not None:
            await asyncio.sleep(seconds)
            return
        life = self._life
        await asyncio.wait((life.harness.running,), timeout=seconds)
        if life.broken is not None:
            raise life.broken
        self._check_bindings()
        if not life.dead:
            await life.harness.settle(0.0)
        if not life.dead:
            life.harness.check_invariants()
            life.witness.check(life.harness.core)

    # What must be true.

    def _check_bindings(self) -> None:
        """Assert that nobody was bound twice since we last looked, or without a decision."""
        bound = self._storm.api.bound
        known = self._decided | self._life.witness.decided | self._storm.foreign
        for uid, node in bound[len(self._bound) :]:
            assert uid not in self._bound, f"{uid} was bound twice"
            assert (uid, node) in known, f"{uid} is bound to {node}, which nobody decided"
            self._bound[uid] = node

    def _check_placed(self) -> None:
        """Assert that no pod is left that the pure cycle would bind, by what is true."""
        cache = ClusterCache()
        for node in self._storm.nodes():
            cache.add_node(_read(Resource.NODE, node))
        nominated: dict[str, list[Pod]] = {}
        for document in self._storm.pods():
            pod = _read(Resource.POD, document)
            if pod.node_name:
                cache.add_pod(pod)
            elif pod.nominated_node:
                nominated.setdefault(pod.nominated_node, []).append(pod)
        for distrust in self._life.harness.core.cache.view().objects.all(NODE_DISTRUST):
            cache.put(NODE_DISTRUST, distrust)
        profiles = {profile.scheduler_name: profile for profile in self._profiles}
        for document in self._storm.pending():
            pod = _read(Resource.POD, document)
            profile = profiles[pod.spec.scheduler_name]
            decision = decide(Attempt(profile, pod, cache.view(), nominated))
            if isinstance(decision, Bind):
                queued = self._life.harness.core.queue.find(pod.uid)
                story = str(queued) if queued else f"{pod.key} is in no queue"
                raise AssertionError(  # noqa: TRY004 - no type is wrong
                    f"{pod.key} would go to {decision.node}, but: {story}"
                )

    def _tell(self, problem: Exception) -> str:
        text = f"{type(problem).__name__}: {problem}"
        journal = self._storm.journal
        concerned = {subject for _, subject, _ in journal if re.search(rf"\b{subject}\b", text)}
        return f"{text}\n{journal.story_of(concerned | {'scheduler', 'watches'})}"


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
    """Return the profiles, but for their doorman."""
    registry = Registry(IN_TREE)
    return tuple(map(registry.build, read(_PROFILES).resolve(registry.available).profiles))


def _read(resource: Resource, document: Document) -> Any:
    item = Decoder(WATCHED[resource]).item(msgspec.Raw(encode(document)))
    assert not isinstance(item, Unreadable)
    return item
