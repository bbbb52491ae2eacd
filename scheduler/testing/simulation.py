"""One seed, one run: the real scheduler in a storm, watched at every step.

::

    outcome = simulate(seed=7)
    assert not outcome.violation, outcome.report()

Loop, cache, queue, cycle and binding are the real ones; the clock is virtual and everything that
happens is drawn from the seed, so the same seed is the same run. The scheduler may be killed at any
await point and started again.
"""

import asyncio
import hashlib
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.errors import ApiError
from scheduler.framework.cluster_event import NODE, Action, ClusterEvent, Requeue
from scheduler.framework.decision import Bind
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Allow, Wait
from scheduler.kube.decode import Decoder, Unreadable
from scheduler.kube.requests import Params
from scheduler.kube.watched import WATCHED
from scheduler.loop.inbox import Message
from scheduler.model.fact import Added, Deleted, Fact, Listed, Resource, Updated
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.scheduling_queue import QueueSettings
from scheduler.testing import clock
from scheduler.testing.harness import WATCHING, Harness, default_profile, with_plugins
from scheduler.testing.simulated_api import Document, SimulatedApi
from scheduler.testing.storm import DOOR, OURS, Storm
from scheduler.testing.witness import Witness

FEWEST_STEPS: Final = 60
MOST_STEPS: Final = 240
_NEVER: Final = 1e9
_REST_SECONDS: Final = 160.0
_REST_SECONDS_WITH_FLUSH: Final = 420.0
_DOORMAN_SECONDS: Final = 2.0
_PROBE: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went.

    Args:
        digest: Of everything that happened: equal for a replay.
        violation: What was broken, with the stories of the pods concerned; empty mostly.
    """

    seed: int
    steps: int
    faults: int
    digest: str
    violation: str = ""

    def report(self) -> str:
        """Tell what went wrong and how to see it again."""
        again = f"make simulation SIMULATION_ARGS='--seed {self.seed}'"
        return f"seed {self.seed}, step {self.steps}: {self.violation}\nagain: {again}"


def simulate(seed: int, *, most_steps: int = MOST_STEPS) -> Outcome:
    """Run the simulation of *seed*."""
    return clock.run(_Simulation(seed, most_steps).run())


class Doorman:
    """Lets pods wait at the doors of nodes, and turns them away when a door stays shut.

    It asks about a door once, when a pod comes: a door that opens meanwhile helps only whoever
    comes again, so that nothing but the event in flight brings the pod back.
    """

    name = "Doorman"
    requeue_on = (Requeue(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),)

    def __init__(self, api: SimulatedApi) -> None:
        self._api = api

    def permit(self, pod: Pod, node: str, waiting: Any) -> Allow | Wait:
        """Allow who needs no door or finds it open."""
        there = self._api.documents.get(f"/api/v1/nodes/{node}")
        shut = there is not None and there["metadata"]["labels"].get(DOOR) == "shut"
        is_waiting = any(each.uid == pod.uid for each in waiting)
        if DOOR not in pod.labels or not (shut or is_waiting):
            return Allow()
        return Wait(_DOORMAN_SECONDS)


class Connection:
    """How one life of a scheduler reaches the API server; a killed one hears nothing more.

    The server goes on with a request whose sender is dead.
    """

    def __init__(self, api: SimulatedApi, life: "_Life") -> None:
        self._api = api
        self._life = life

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Read what is at *path*."""
        return await self._carry(lambda: self._api.get(path, params))

    async def post(self, path: str, body: bytes, params: Params | None = None) -> bytes:
        """Create what *body* says; bindings are judged on their way."""
        await self._life.await_point()
        pod = _PROBE.fullmatch(path)
        if pod is None:
            return await self._carry(lambda: self._api.post(path, body, params))
        binding = msgspec.json.decode(body)
        uid = PodUid(binding["metadata"].get("uid", ""))
        self._life.note(pod[2], f"is posted to {binding['target']['name']}")
        self._life.judge(f"{pod[1]}/{pod[2]}", uid, binding["target"]["name"])
        try:
            return await self._carry(lambda: self._api.post(path, body, params))
        except ApiError as error:
            self._life.note(pod[2], f"is not bound: {error}")
            self._life.witness.answered(uid, error)
            raise

    async def put(self, path: str, body: bytes, params: Params | None = None) -> bytes:
        """Replace what is at *path*."""
        return await self._carry(lambda: self._api.put(path, body, params))

    async def patch(
        self, path: str, body: bytes, content_type: str, params: Params | None = None
    ) -> bytes:
        """Change what is at *path*."""
        return await self._carry(lambda: self._api.patch(path, body, content_type, params))

    async def delete(self, path: str, body: bytes = b"", params: Params | None = None) -> bytes:
        """Delete what is at *path*; evictions are judged on their way."""
        await self._life.await_point()
        _, _, name = path.rpartition("/")
        uid = msgspec.json.decode(body or b"{}").get("preconditions", {}).get("uid", "")
        self._life.note(name, "is to be deleted")
        self._life.judge_deletion(f"default/{name}", PodUid(uid))
        return await self._carry(lambda: self._api.delete(path, body, params))

    async def _carry(self, request: Callable[[], Awaitable[bytes]]) -> bytes:
        await self._life.await_point()
        served = asyncio.ensure_future(request())
        served.add_done_callback(_hear_out)
        try:
            answer = await asyncio.shield(served)
        except ApiError:
            await self._life.await_point()
            raise
        await self._life.await_point()
        return answer


class _Life:
    """One life of the scheduler, from its start until it is killed or the run is over."""

    def __init__(self, storm: Storm, profile: Profile, queue: QueueSettings, seed: int) -> None:
        self._storm = storm
        self._dead = False
        self._fatal_point = _NEVER
        self.broken: AssertionError | None = None
        self.on_death: Callable[[], None] = _nothing
        self.effective: set[tuple[str, str]] = set()
        self.witness = Witness(OURS, self.effective)
        self.harness = Harness(
            api=storm.api,
            requests=Connection(storm.api, self),
            profiles=[profile],
            queue=queue,
            listed=False,
            seed=seed,
        )

    async def begin(self) -> None:
        """Start, and list one resource after the other."""
        api, rng = self._storm.api, self._storm.rng
        await self.harness.__aenter__()
        inbox = self.harness.core.inbox
        take, method = inbox.take, "take"

        def tapped() -> Message | None:
            message = take()
            if isinstance(message, Added | Updated | Deleted | Listed):
                self._hear(message)
            return message

        setattr(inbox, method, tapped)
        api.reconnect(inbox.put)
        for resource in WATCHING:
            asyncio.get_running_loop().call_later(rng.uniform(0.0, 0.5), api.tell_all, resource)

    def _hear(self, fact: Fact) -> None:
        self.witness.hear(fact)
        if not isinstance(fact, Listed):
            item = fact.old if isinstance(fact, Deleted) else fact.new
            where = f" on {item.node_name}" if isinstance(item, Pod) and item.node_name else ""
            told = f"{fact.resource} is told {type(fact).__name__.lower()}"
            self.note(item.metadata.name, f"{told}{where}")

    def note(self, subject: str, text: str) -> None:
        """Write into the journal."""
        self._storm.journal.note(asyncio.get_running_loop().time(), subject, text)

    def judge(self, key: str, uid: PodUid, node: str) -> None:
        """Hold a binding that is about to be posted against what is known."""
        try:
            self.effective.update(set(self._storm.api.bound) - self._storm.foreign)
            self.witness.posting(key, uid, node)
        except AssertionError as problem:
            self.broken = self.broken or problem

    def judge_deletion(self, key: str, uid: PodUid) -> None:
        """Hold a deletion that is about to be asked for against what is known."""
        try:
            self.witness.deleting(key, uid)
        except AssertionError as problem:
            self.broken = self.broken or problem

    # Its end.

    def kill_at(self, points: int) -> None:
        """Die at the await point that many from now."""
        self._fatal_point = points

    async def await_point(self) -> None:
        """Pass a point at which the process may be killed; who is dead never returns."""
        self._fatal_point -= 1
        if self._fatal_point < 0 and not self._dead:
            self.die()
        if self._dead:
            await asyncio.get_running_loop().create_future()

    def die(self) -> None:
        """Hear and say nothing more."""
        self._dead = True
        self._storm.api.reconnect(_deaf)
        self.on_death()

    async def bury(self) -> None:
        """End its tasks; they can do nothing but end."""
        self.harness.core.loop.stop()
        self.harness.running.cancel()
        await asyncio.gather(self.harness.running, return_exceptions=True)
        await self.harness.core.binding.finish(0.0)
        await self.harness.core.evictions.finish(0.0)
        await self.harness.core.status.close(0.0)


class _Simulation:
    """One run.

    Args:
        most_steps: How many steps there are at most before the storm is over.
    """

    def __init__(self, seed: int, most_steps: int) -> None:
        self._seed = seed
        self._rng = random.Random(seed)  # noqa: S311 - drawn again, not guessed
        self._most_steps = most_steps
        self._steps = 0
        self._storm: Storm
        self._life: _Life
        self._profile: Profile
        self._graves: list[asyncio.Task[None]] = []
        self._decided: set[tuple[str, str]] = set()
        self._reborn_at: float | None = None

    async def run(self) -> Outcome:
        """Ride out the storm and look around."""
        self._storm = Storm(self._rng)
        flushes = self._rng.random() < 0.25
        # Where nothing is ever flushed, whoever is forgotten stays so.
        seconds = 300.0 if flushes else _NEVER
        self._queue = QueueSettings(unschedulable_seconds=seconds)
        self._profile = with_plugins(default_profile(), Doorman(self._storm.api))
        violation = ""
        await self._be_born()
        try:
            await self._ride_out()
            await self._rest(_REST_SECONDS_WITH_FLUSH if flushes else _REST_SECONDS)
        except Exception as problem:  # noqa: BLE001 - a bug that ends the loop is a violation
            violation = self._tell(problem)
        finally:
            await self._life.bury()
            await asyncio.gather(*self._graves)
        lines = repr(list(self._storm.journal)).encode()
        digest = hashlib.sha256(lines).hexdigest()[:16]
        return Outcome(self._seed, self._steps, self._storm.faults, digest, violation)

    async def _be_born(self) -> None:
        self._reborn_at = None
        self._life = _Life(self._storm, self._profile, self._queue, self._seed)
        self._life.on_death = self._mourn
        await self._life.begin()
        self._life.note("scheduler", "starts")

    def _mourn(self) -> None:
        self._storm.faults += 1
        self._life.note("scheduler", "is killed")
        self._decided |= self._life.witness.decided
        self._graves.append(asyncio.ensure_future(self._life.bury()))
        now = asyncio.get_running_loop().time()
        self._reborn_at = now + self._rng.uniform(0.0, 4.0)

    async def _ride_out(self) -> None:
        rng = self._rng
        for _ in range(rng.randint(FEWEST_STEPS, self._most_steps)):
            self._storm.strike()
            if rng.random() < 0.02 and self._reborn_at is None:
                self._life.kill_at(rng.randrange(6))
            await self._step(rng.choice([0.0, 0.01, 0.1, rng.uniform(0.0, 1.0)]))
        self._life.kill_at(int(_NEVER))
        self._storm.end()

    async def _rest(self, seconds: float) -> None:
        for _ in range(10):
            await self._step(seconds / 10)
        self._life.witness.check_at_rest(self._life.harness.core)
        self._check_placed()

    async def _step(self, seconds: float) -> None:
        self._steps += 1
        self._storm.kubelets()
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
        if self._reborn_at is None:
            await self._life.harness.settle(0.0)
            self._life.harness.check_invariants()
            self._life.witness.check(self._life.harness.core)

    # What must be true.

    def _check_bindings(self) -> None:
        bound = self._storm.api.bound
        self._life.effective.update(set(bound) - self._storm.foreign)
        uids = [uid for uid, _ in bound]
        if len(set(uids)) < len(uids):
            twice = next(uid for uid in uids if uids.count(uid) > 1)
            raise AssertionError(f"{twice} was bound twice")
        known = self._decided | self._life.witness.decided | self._storm.foreign
        for uid, node in bound:
            assert (uid, node) in known, f"{uid} is bound to {node}, which nobody decided"

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
        for document in self._storm.pending():
            pod = _read(Resource.POD, document)
            decision = decide(Attempt(self._profile, pod, cache.view(), nominated))
            if isinstance(decision, Bind):
                queued = self._life.harness.core.queue.find(pod.uid)
                story = queued.tell() if queued else f"{pod.key} is in no queue"
                raise AssertionError(  # noqa: TRY004 - no type is wrong
                    f"{pod.key} would go to {decision.node}, but: {story}"
                )

    def _tell(self, problem: Exception) -> str:
        text = f"{type(problem).__name__}: {problem}"
        journal = self._storm.journal
        concerned = {subject for _, subject, _ in journal if re.search(rf"\b{subject}\b", text)}
        return f"{text}\n{journal.story_of(concerned | {'scheduler', 'watches'})}"


def _read(resource: Resource, document: Document) -> Any:
    item = Decoder(WATCHED[resource]).item(msgspec.Raw(msgspec.json.encode(document)))
    assert not isinstance(item, Unreadable)
    return item


def _hear_out(served: "asyncio.Future[bytes]") -> None:
    """Take note of how a request ended whose sender may be dead."""
    if not served.cancelled():
        served.exception()


def _deaf(_: Fact) -> None:
    """Hear nothing."""


def _nothing() -> None:
    """Do nothing."""
