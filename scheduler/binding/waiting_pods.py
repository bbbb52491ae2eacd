"""Pods that have a node but must not be bound yet.

A permit plugin may ask for time, and a pre-bind plugin may wait for something to become true.
Nobody polls: whoever is held is asked again whenever facts were applied, and a timer ends the wait.

Source: ``framework/runtime/waiting_pods_map.go``.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.config.duration import format_seconds
from scheduler.errors import PluginError
from scheduler.framework.effects import WaitUntil
from scheduler.framework.plugin import PermitPlugin
from scheduler.framework.rejection import Allow, Reject, Wait
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

LONGEST_WAIT_SECONDS: Final = 15 * 60.0


@dataclass(frozen=True, slots=True)
class Released:
    """The wait is over: *why* is empty to go on, else the reason to give up.

    *broken* tells that the plugin did not reject the pod but failed.
    """

    plugin: str = ""
    why: str = ""
    broken: bool = False


@dataclass(frozen=True, slots=True)
class _Waiting:
    plugin: PermitPlugin
    seconds: float
    until: float


@dataclass(slots=True, eq=False)
class _Held:
    placement: BindingAttempt
    waiting_for: dict[str, _Waiting]
    done: "asyncio.Future[Released]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


@dataclass(slots=True, eq=False)
class _Condition:
    uid: str
    wait: WaitUntil
    done: "asyncio.Future[str]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class WaitingPods:
    """Everyone who waits, and what for.

    Args:
        ask: Asks a permit plugin again.
        view: Returns the cluster as it is known now.
    """

    def __init__(
        self,
        ask: Callable[[BindingAttempt, PermitPlugin, Sequence[Pod]], object],
        view: Callable[[], NodeTable],
    ) -> None:
        self._ask = ask
        self._view = view
        self._held: dict[str, _Held] = {}
        self._waiting: tuple[Pod, ...] | None = None
        self._conditions: list[_Condition] = []

    @property
    def waiting(self) -> Sequence[Pod]:
        """The pods that permit plugins hold."""
        # Each of them is shown all of them: one tuple for as long as nobody comes or goes.
        if self._waiting is None:
            self._waiting = tuple(held.placement.pod for held in self._held.values())
        return self._waiting

    @property
    def count(self) -> int:
        """How many pods wait, for permits or for conditions."""
        return len(self._held) + len(self._conditions)

    def hold(
        self, placement: BindingAttempt, waits: Sequence[tuple[PermitPlugin, Wait]], now: float
    ) -> "asyncio.Future[Released]":
        """Hold a pod until every plugin of *waits* allows it, one rejects it, or time is up."""
        waiting_for = {}
        for plugin, wait in waits:
            seconds = min(wait.seconds, LONGEST_WAIT_SECONDS)
            waiting_for[plugin.name] = _Waiting(plugin, seconds, now + seconds)
        held = self._held[placement.pod.uid] = _Held(placement, waiting_for)
        self._waiting = None
        return held.done

    def reject(self, uid: str, why: str) -> bool:
        """End the wait of a pod with a rejection; False where it does not wait."""
        held = self._let_go(uid)
        if held is None:
            return False
        if not held.done.done():
            held.done.set_result(Released("", why))
        return True

    def cancel(self, uid: str, why: str) -> bool:
        """End the wait of a pod that must make room; False where it does not wait."""
        held = self._let_go(uid)
        if held is None:
            return False
        if not held.done.done():
            held.done.set_result(Released("", why, broken=True))
        return True

    def give_up(self, uid: str, why: str) -> None:
        """End the wait of a pod for a condition, if it waits for one."""
        for condition in self._conditions:
            if condition.uid == uid and not condition.done.done():
                condition.done.set_result(why)

    def abandon(self) -> None:
        """Cancel everyone who is held: nobody will be bound any more."""
        for held in self._held.values():
            held.done.cancel()
        self._held.clear()
        self._waiting = None
        for condition in self._conditions:
            condition.done.cancel()

    async def until(self, pod: Pod, wait: WaitUntil) -> str:
        """Return once the condition is true: empty, or why it never became so."""
        condition = _Condition(pod.uid, wait)
        self._conditions.append(condition)
        self._examine(condition)
        try:
            return await asyncio.wait_for(condition.done, wait.timeout_seconds)
        except TimeoutError:
            return f"{wait.what} did not happen within {wait.timeout_seconds:g}s"
        finally:
            self._conditions.remove(condition)

    def reconsider(self, now: float) -> Iterator[None]:
        """Ask again on behalf of everyone who waits: facts were applied, or time has passed.

        There is a pause after each of them: a thousand may wait.
        """
        for held in tuple(self._held.values()):
            if not held.done.done():
                self._reconsider_one(held, now)
                yield
        for condition in tuple(self._conditions):
            if not condition.done.done():
                self._examine(condition)
                yield

    def next_deadline(self) -> float | None:
        """Return when the next wait for a permit runs out."""
        return min(
            (each.until for held in self._held.values() for each in held.waiting_for.values()),
            default=None,
        )

    def _reconsider_one(self, held: _Held, now: float) -> None:
        for name, each in list(held.waiting_for.items()):
            try:
                answer = self._ask(held.placement, each.plugin, self.waiting)
            except PluginError as bug:
                self._release(held, Released(name, str(bug), broken=True))
                return
            if isinstance(answer, Allow):
                del held.waiting_for[name]
            elif isinstance(answer, Reject):
                self._release(held, Released(name, answer.reason))
                return
            elif now >= each.until:
                self._release(held, Released(name, _timed_out(name, each.seconds)))
                return
        if not held.waiting_for:
            self._release(held, Released())

    def _release(self, held: _Held, result: Released) -> None:
        self._let_go(held.placement.pod.uid)
        if not held.done.done():
            held.done.set_result(result)

    def _let_go(self, uid: str) -> _Held | None:
        self._waiting = None
        return self._held.pop(uid, None)

    def _examine(self, condition: _Condition) -> None:
        try:
            answer = condition.wait.condition(self._view())
        except Exception as bug:  # noqa: BLE001 - a plugin's question, which ends its own wait alone
            answer = f"asking for {condition.wait.what} raised {type(bug).__name__}: {bug}"
        if answer and not condition.done.done():
            condition.done.set_result("" if answer is True else str(answer))


def _timed_out(plugin: str, seconds: float) -> str:
    waited = format_seconds(seconds)
    return f"rejected due to timeout after waiting {waited} at plugin {plugin}"
