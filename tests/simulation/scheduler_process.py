"""One process of the real scheduler, which can be killed at any await point.

Every task of the process runs in a `_KillableCoroutine`: once the process has ended, none of its
tasks takes another step. A request that was sent before goes on at the API server, as it does when
a real process is killed.
"""

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Final, NoReturn

import msgspec

from scheduler.errors import ApiError
from scheduler.framework.decision import Preempt
from scheduler.framework.profile import Profile
from scheduler.kube.reflector import Reflector
from scheduler.kube.reflector_timeouts import SharedBackoff
from scheduler.kube.requests import Params
from scheduler.kube.watched import WATCHED
from scheduler.loop.control_loop import LoopSettings
from scheduler.model.fact import Added, Deleted, Fact, Listed, Updated
from scheduler.model.meta import PodUid
from scheduler.model.pod import Pod
from scheduler.preemption.preemptions import Preemption
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queued_pod import QueuedPod
from scheduler.reporting.inbox import Message
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import SimulatedApi
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.invariant_checker import InvariantChecker
from tests.simulation.workload import SPARING

NEVER: Final = 1e9
_ATTEMPTS_A_SECOND: Final = 100
"""More than one pod needs in a second, however often victims and nodes come and go."""
_CANCELLATIONS_MAXIMUM: Final = 100
"""How often a task is cancelled: a ``finally`` block may await again on the way out."""
_PROCESS: "contextvars.ContextVar[SchedulerProcess | None]" = contextvars.ContextVar(
    "process", default=None
)


class SchedulerProcess:
    """One process of the scheduler, from its start until it is killed or the run is over.

    Args:
        draw_kill: Called at each request that changes something. Returns after how many steps the
            process is killed, or None to let it go on.
        on_kill: Called once the process is killed, with the function and line it was killed at.
    """

    def __init__(
        self,
        injector: FaultInjector,
        profiles: Sequence[Profile],
        queue: QueueSettings,
        seed: int,
        draw_kill: Callable[[], int | None],
        on_kill: Callable[[str], None],
    ) -> None:
        self._injector = injector
        self._profiles = {profile.scheduler_name: profile for profile in profiles}
        self._seed = seed
        self._draw_kill = draw_kill
        self._on_kill = on_kill
        self._tasks: set[asyncio.Task[Any]] = set()
        self._fatal_step = NEVER
        self.ended = False
        self.broken: AssertionError | None = None
        self.effective: set[tuple[str, str]] = set()
        self.checker = InvariantChecker(frozenset(self._profiles), self.effective, self._exists)
        self.harness = Harness(
            api=injector.api,
            requests=Connection(injector.api, self),
            profiles=profiles,
            queue=queue,
            watching=injector.watched,
            listed=False,
            loop=LoopSettings(seed=seed, check_decisions=True),
        )

    async def begin(self) -> None:
        """Start the loop, and the reflectors that feed it."""
        loop = asyncio.get_running_loop()
        loop.set_task_factory(_make_task)
        here = _PROCESS.set(self)
        try:
            await self.harness.__aenter__()
            self._install_checks()
            shared_backoff, rng = SharedBackoff(), random.Random(self._seed)
            for resource in self._injector.watched:
                reflector = Reflector(
                    self._injector.watches,
                    WATCHED[resource],
                    self.harness.core.inbox.put,
                    clock=loop.time,
                    shared_backoff=shared_backoff,
                    rng=rng,
                )
                self._start(reflector.run())
        finally:
            _PROCESS.reset(here)
        self.note("scheduler", "starts")

    def _install_checks(self) -> None:
        """Pass each fact that is applied and each preemption to the checker, and limit attempts."""
        core = self.harness.core
        take, begin, pop = core.inbox.take, core.evictions.begin, core.queue.pop
        second, popped = -1.0, Counter[PodUid]()

        def take_and_record() -> Message | None:
            message = take()
            if isinstance(message, Added | Updated | Deleted | Listed):
                self._record_fact(message)
            return message

        def check_and_begin(decision: Preempt) -> tuple[Preemption, Sequence[Pod]]:
            victims = ", ".join(victim.name for victim in decision.victims)
            self.note(decision.pod.name, f"is to have the place of {victims} on {decision.node}")
            profile = self._profiles[decision.pod.spec.scheduler_name]
            among = self._profiles if profile.scheduler_name == SPARING else None
            self.check(lambda: self.checker.preempting(decision, profile, core, among))
            begun = begin(decision)
            self.check(lambda: self.checker.has_begun(decision, core))
            return begun

        def pop_and_count(now: float) -> QueuedPod | None:
            nonlocal second
            if now >= second + 1.0:
                second = now
                popped.clear()
            queued = pop(now)
            if queued is not None:
                popped[queued.pod.uid] += 1
                often = popped[queued.pod.uid] > _ATTEMPTS_A_SECOND
                assert not often, f"{queued.pod.key} is decided about again and again: {queued}"
            return queued

        def refuse_difference(pod: Pod, difference: str) -> None:
            self.check(lambda: _fail(f"{pod.key}: {difference}"))

        for owner, method, replacement in (
            (core.inbox, "take", take_and_record),
            (core.queue, "pop", pop_and_count),
            (self.harness.telemetry, "decision_differed", refuse_difference),
            (core.evictions, "begin", check_and_begin),
        ):
            setattr(owner, method, replacement)

    def _record_fact(self, fact: Fact) -> None:
        self.checker.record_fact(fact)
        if not isinstance(fact, Listed):
            item = fact.old if isinstance(fact, Deleted) else fact.new
            where = f" on {item.node_name}" if isinstance(item, Pod) and item.node_name else ""
            text = f"{fact.resource} is told {type(fact).__name__.lower()}"
            self.note(item.metadata.name, f"{text}{where}")

    def note(self, subject: str, text: str) -> None:
        """Write into the journal."""
        if not self.ended:
            self._injector.note(subject, text)

    def check(self, rule: Callable[[], None]) -> None:
        """Evaluate *rule*; the first violation is kept in `broken`.

        It is not raised here: the product would handle it as a failure of its own request.
        """
        if self.ended:
            return
        try:
            self.effective.update(set(self._injector.api.bound) - self._injector.bound_by_others)
            rule()
        except AssertionError as problem:
            self.broken = self.broken or problem

    def _exists(self, pod: Pod) -> bool:
        found = self._injector.api.documents.get(pod_path(pod))
        return found is not None and found["metadata"]["uid"] == pod.uid

    # Its end.

    def kill_after(self, steps: int) -> None:
        """Kill the process after *steps* more steps of its tasks."""
        self._fatal_step = min(self._fatal_step, steps)

    def before_change(self) -> None:
        """Draw whether a request that changes something is among the last steps."""
        steps = self._draw_kill()
        if steps is not None:
            self.kill_after(steps)

    def cancel_kill(self) -> None:
        """Forget a kill that was drawn."""
        self._fatal_step = NEVER

    def end(self, where: str = "") -> None:
        """Let no task take a further step; *where* is empty at the end of the run."""
        if self.ended:
            return
        if where:
            self.note("scheduler", f"is killed in {where}")
        self.ended = True
        for task in self._tasks:
            task.cancel()
        if where:
            self._on_kill(where)

    # Its tasks.

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task of this process; `add_task` keeps the reference to it."""
        asyncio.get_running_loop().create_task(work)

    def add_task(self, task: "asyncio.Task[Any]") -> None:
        """Register a task that this process started."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def step_done(self, coro: "Coroutine[Any, Any, Any]") -> None:
        """Count one step of a task of this process; kill the process if it was the last one."""
        self._fatal_step -= 1
        if self._fatal_step < 0 and not self.ended:
            self.end(_waiting_function(coro))


class _KillableCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine that takes no step once its process has ended."""

    def __init__(self, coro: Coroutine[Any, Any, Any], process: SchedulerProcess) -> None:
        self._coro = coro
        self._process = process

    def send(self, value: Any) -> Any:
        self._end_if_killed()
        found = self._coro.send(value)
        self._process.step_done(self._coro)
        return found

    def throw(self, *problem: Any) -> Any:
        self._end_if_killed()
        found = self._coro.throw(*problem)
        self._process.step_done(self._coro)
        return found

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coro.__await__()

    def _end_if_killed(self) -> None:
        """Cancel the coroutine until it ends; whatever it raises then is lost with its process."""
        if not self._process.ended:
            return
        for _ in range(_CANCELLATIONS_MAXIMUM):
            try:
                self._coro.throw(asyncio.CancelledError)
            except BaseException:  # noqa: BLE001 - a killed process reports nothing
                break
        raise asyncio.CancelledError


def _fail(why: str) -> NoReturn:
    raise AssertionError(why)


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Any,
    context: contextvars.Context | None = None,
) -> "asyncio.Task[Any]":
    """Make a task; it belongs to the process of the task that makes it, if any."""
    process = context.get(_PROCESS) if context is not None else _PROCESS.get()
    if process is None:
        return asyncio.Task(coro, loop=loop, context=context)
    task = asyncio.Task(_KillableCoroutine(coro, process), loop=loop, context=context)
    process.add_task(task)
    return task


def _waiting_function(coro: Any) -> str:
    """Name the function of the product that waits, and the line where it does."""
    found = "the event loop"
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None)
        module = "" if frame is None else frame.f_globals["__name__"]
        if frame is not None and module.startswith("scheduler.") and ".testing." not in module:
            file = frame.f_code.co_filename.rpartition("/")[2]
            found = f"{frame.f_code.co_qualname}, {file}:{frame.f_lineno}"
        coro = getattr(coro, "cr_await", None)
    return found


class Connection:
    """Carries the requests of one process to the API server; a killed process gets no answers.

    The server goes on with a request whose sender was killed.
    """

    def __init__(self, api: SimulatedApi, process: SchedulerProcess) -> None:
        self._api = api
        self._process = process
        self._outside = contextvars.Context()

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Read what is at *path*."""
        return await self._carry(lambda: self._api.get(path, params), changes=False)

    async def post(self, path: str, body: bytes, params: Params | None = None) -> bytes:
        """Create what *body* says; bindings are checked before they are sent."""
        _, _, name, sub = path.rsplit("/", 3)
        if sub != "binding":
            return await self._carry(lambda: self._api.post(path, body, params))
        binding = msgspec.json.decode(body)
        uid, node = PodUid(binding["metadata"].get("uid", "")), binding["target"]["name"]
        checker = self._process.checker
        self._process.note(name, f"is posted to {node}")
        self._process.check(lambda: checker.posting(f"default/{name}", uid, node))
        try:
            return await self._carry(lambda: self._api.post(path, body, params))
        except ApiError as error:
            self._process.note(name, f"is not bound: {error}")
            checker.answered(uid, error)
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
        """Delete what is at *path*; evictions are checked before they are sent."""
        _, _, name = path.rpartition("/")
        uid = msgspec.json.decode(body or b"{}").get("preconditions", {}).get("uid", "")
        self._process.note(name, "is to be deleted")
        self._process.check(lambda: self._process.checker.deleting(f"default/{name}", PodUid(uid)))
        return await self._carry(lambda: self._api.delete(path, body, params))

    async def _carry(
        self, request: Callable[[], Coroutine[Any, Any, bytes]], *, changes: bool = True
    ) -> bytes:
        """Let the API server serve *request* in a task that does not belong to the process."""
        loop = asyncio.get_running_loop()
        if self._process.ended:
            await loop.create_future()
        if changes:
            self._process.before_change()
        served = loop.create_task(request(), context=self._outside.copy())
        served.add_done_callback(_retrieve_exception)
        return await asyncio.shield(served)


def _retrieve_exception(served: "asyncio.Future[bytes]") -> None:
    """Retrieve the error of a request whose sender may be gone: asyncio logs it otherwise."""
    if not served.cancelled():
        served.exception()
