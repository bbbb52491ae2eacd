"""One life of a scheduler: it begins, is told, asks, and may be killed wherever it waits.

Every task of the process is *mortal*: the process may end after any of its steps, that is, at any
await point, and none of its tasks takes another one. What it had asked for goes on at the API
server, which knows nothing of the end.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Final

import msgspec

from scheduler.errors import ApiError
from scheduler.framework.decision import Preempt
from scheduler.framework.profile import Profile
from scheduler.kube.reflector import Reflector
from scheduler.kube.reflector_timeouts import SharedBackoff
from scheduler.kube.requests import Params
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Added, Deleted, Fact, Listed, Updated
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queued_pod import QueuedPod
from scheduler.reporting.inbox import Message
from scheduler.testing.documents import pod_path
from scheduler.testing.fault_injector import FaultInjector
from scheduler.testing.harness import Harness
from scheduler.testing.invariant_checker import InvariantChecker
from scheduler.testing.simulated_api import SimulatedApi
from scheduler.testing.workload import SPARING

NEVER: Final = 1e9
_ATTEMPTS_AT_ONCE: Final = 3000
"""More than the pods of a run can have reason for in one moment."""
_LAST_WORDS: Final = 100
"""How often a task is told that it is over; some wait once more on their way out."""
_OF_LIFE: "contextvars.ContextVar[SchedulerProcess | None]" = contextvars.ContextVar(
    "life", default=None
)


class SchedulerProcess:
    """One process of the scheduler, from its start until it is killed or the run is over.

    Args:
        doom: Called at each request that changes something: after how many steps the process dies,
            or None to let it live.
        on_death: Called once it is killed, with the place where.
    """

    def __init__(
        self,
        storm: FaultInjector,
        profiles: Sequence[Profile],
        queue: QueueSettings,
        seed: int,
        doom: Callable[[], int | None],
        on_death: Callable[[str], None],
    ) -> None:
        self._storm = storm
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._seed = seed
        self._doom = doom
        self._on_death = on_death
        self._tasks: set[asyncio.Task[Any]] = set()
        self._fatal_step = NEVER
        self.dead = False
        self.broken: AssertionError | None = None
        self.effective: set[tuple[str, str]] = set()
        self.witness = InvariantChecker(frozenset(self._profiles), self.effective, self._exists)
        self.harness = Harness(
            api=storm.api,
            requests=Connection(storm.api, self),
            profiles=profiles,
            queue=queue,
            watching=storm.watched,
            listed=False,
            seed=seed,
        )

    async def begin(self) -> None:
        """Start the loop, and the reflectors that feed it."""
        loop = asyncio.get_running_loop()
        loop.set_task_factory(_make_task)
        here = _OF_LIFE.set(self)
        try:
            await self.harness.__aenter__()
            self._listen_in()
            company, rng = SharedBackoff(), random.Random(self._seed)  # noqa: S311 - jitter
            for resource in self._storm.watched:
                reflector = Reflector(
                    self._storm.watches,
                    WATCHED[resource],
                    self.harness.core.inbox.put,
                    clock=loop.time,
                    company=company,
                    rng=rng,
                )
                self._start(reflector.run())
        finally:
            _OF_LIFE.reset(here)
        self.note("scheduler", "starts")

    def _listen_in(self) -> None:
        """Let the witness hear each fact that is applied, and each decision to make room."""
        core = self.harness.core
        take, begin, pop = core.inbox.take, core.evictions.begin, core.queue.pop
        moment, popped = -1.0, 0

        def tapped() -> Message | None:
            message = take()
            if isinstance(message, Added | Updated | Deleted | Listed):
                self._hear(message)
            return message

        def judged(decision: Preempt) -> None:
            victims = ", ".join(victim.name for victim in decision.victims)
            self.note(decision.pod.name, f"is to have the place of {victims} on {decision.node}")
            profile = self._profiles[decision.pod.spec.scheduler_name]
            among = self._profiles if profile.scheduler_name == SPARING else None
            self.judge(lambda: self.witness.preempting(decision, profile, core, among))
            begin(decision)
            self.judge(lambda: self.witness.has_begun(decision, core))

        def counted(now: float) -> QueuedPod | None:
            nonlocal moment, popped
            moment, popped = now, popped + 1 if now == moment else 0
            assert popped < _ATTEMPTS_AT_ONCE, "pods are decided about again and again"
            return pop(now)

        for owner, method, listener in (
            (core.inbox, "take", tapped),
            (core.queue, "pop", counted),
            (core.evictions, "begin", judged),
        ):
            setattr(owner, method, listener)

    def _hear(self, fact: Fact) -> None:
        self.witness.hear(fact)
        if not isinstance(fact, Listed):
            item = fact.old if isinstance(fact, Deleted) else fact.new
            where = f" on {item.node_name}" if isinstance(item, Pod) and item.node_name else ""
            told = f"{fact.resource} is told {type(fact).__name__.lower()}"
            self.note(item.metadata.name, f"{told}{where}")

    def note(self, subject: str, text: str) -> None:
        """Write into the journal."""
        if not self.dead:
            self._storm.note(subject, text)

    def judge(self, rule: Callable[[], None]) -> None:
        """Hold what is about to be done against *rule*; what it breaks is kept for later."""
        if self.dead:
            return
        try:
            self.effective.update(set(self._storm.api.bound) - self._storm.foreign)
            rule()
        except AssertionError as problem:
            self.broken = self.broken or problem

    def _exists(self, pod: Pod) -> bool:
        found = self._storm.api.documents.get(pod_path(pod))
        return found is not None and found["metadata"]["uid"] == pod.uid

    # Its end.

    def kill_after(self, steps: int) -> None:
        """Die at the await point that many from now."""
        self._fatal_step = min(self._fatal_step, steps)

    def dare(self) -> None:
        """Make a request that changes something."""
        steps = self._doom()
        if steps is not None:
            self.kill_after(steps)

    def spare(self) -> None:
        """Do not die any more."""
        self._fatal_step = NEVER

    def die(self, where: str = "") -> None:
        """Take no further step."""
        if self.dead:
            return
        if where:
            self.note("scheduler", f"is killed in {where}")
        self.dead = True
        for task in self._tasks:
            task.cancel()
        if where:
            self._on_death(where)

    # Its tasks.

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task; it is kept because it is ours."""
        asyncio.get_running_loop().create_task(work)

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        """Take in a task that was begun by one of ours."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def passed(self, coro: "Coroutine[Any, Any, Any]") -> None:
        """Note that a task of ours waits again."""
        self._fatal_step -= 1
        if self._fatal_step < 0 and not self.dead:
            self.die(_innermost(coro))


class _Mortal(Coroutine[Any, Any, Any]):
    """A coroutine that takes no step once the process is dead."""

    def __init__(self, coro: Coroutine[Any, Any, Any], life: SchedulerProcess) -> None:
        self._coro = coro
        self._life = life

    def send(self, value: Any) -> Any:
        self._perish_if_dead()
        found = self._coro.send(value)
        self._life.passed(self._coro)
        return found

    def throw(self, *problem: Any) -> Any:
        self._perish_if_dead()
        found = self._coro.throw(*problem)
        self._life.passed(self._coro)
        return found

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coro.__await__()

    def _perish_if_dead(self) -> None:
        """End the coroutine; what it does on its way out reaches nobody."""
        if not self._life.dead:
            return
        for _ in range(_LAST_WORDS):
            try:
                self._coro.throw(asyncio.CancelledError)
            except BaseException:  # noqa: BLE001 - however it ends, it is not ours to mind
                break
        raise asyncio.CancelledError


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Any,
    context: contextvars.Context | None = None,
) -> "asyncio.Task[Any]":
    """Make a task; it is mortal if a mortal one makes it."""
    life = context.get(_OF_LIFE) if context is not None else _OF_LIFE.get()
    if life is None:
        return asyncio.Task(coro, loop=loop, context=context)
    task = asyncio.Task(_Mortal(coro, life), loop=loop, context=context)
    life.adopt(task)
    return task


def _innermost(coro: Any) -> str:
    """Name the function of the product that waits, and the line where it does."""
    found = "the event loop"
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None)
        home, _, file = ("" if frame is None else frame.f_code.co_filename).rpartition("/")
        if frame is not None and "/scheduler/" in home and not home.endswith("/testing"):
            found = f"{frame.f_code.co_qualname}, {file}:{frame.f_lineno}"
        coro = getattr(coro, "cr_await", None)
    return found


class Connection:
    """How a scheduler reaches the API server; a killed one hears nothing more.

    The server goes on with a request whose sender is dead.
    """

    def __init__(self, api: SimulatedApi, life: SchedulerProcess) -> None:
        self._api = api
        self._life = life
        self._outside = contextvars.Context()

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Read what is at *path*."""
        return await self._carry(lambda: self._api.get(path, params), changes=False)

    async def post(self, path: str, body: bytes, params: Params | None = None) -> bytes:
        """Create what *body* says; bindings are judged on their way."""
        _, _, name, sub = path.rsplit("/", 3)
        if sub != "binding":
            return await self._carry(lambda: self._api.post(path, body, params))
        binding = msgspec.json.decode(body)
        uid, node = PodUid(binding["metadata"].get("uid", "")), binding["target"]["name"]
        witness = self._life.witness
        self._life.note(name, f"is posted to {node}")
        self._life.judge(lambda: witness.posting(f"default/{name}", uid, node))
        try:
            return await self._carry(lambda: self._api.post(path, body, params))
        except ApiError as error:
            self._life.note(name, f"is not bound: {error}")
            witness.answered(uid, error)
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
        _, _, name = path.rpartition("/")
        uid = msgspec.json.decode(body or b"{}").get("preconditions", {}).get("uid", "")
        self._life.note(name, "is to be deleted")
        self._life.judge(lambda: self._life.witness.deleting(f"default/{name}", PodUid(uid)))
        return await self._carry(lambda: self._api.delete(path, body, params))

    async def _carry(
        self, request: Callable[[], Coroutine[Any, Any, bytes]], *, changes: bool = True
    ) -> bytes:
        """Let the API server work on *request*, outside of our life."""
        loop = asyncio.get_running_loop()
        if self._life.dead:
            await loop.create_future()
        if changes:
            self._life.dare()
        served = loop.create_task(request(), context=self._outside.copy())
        served.add_done_callback(_hear_out)
        return await asyncio.shield(served)


def _hear_out(served: "asyncio.Future[bytes]") -> None:
    """Take note of how a request ended whose sender may be dead."""
    if not served.cancelled():
        served.exception()
