"""Waiting pods: they have a node but must not be bound yet.

A permit plugin may return Wait, and a pre-bind plugin may wait for a condition. In upstream a
plugin keeps a handle of the waiting pod and calls Allow or Reject on it. Here plugins only answer:
they are called again for each waiting pod whenever facts were applied, and a timer ends the wait.

Source: ``framework/runtime/waiting_pods_map.go``.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.config.duration import format_seconds
from scheduler.errors import PluginError
from scheduler.framework.effects import WaitUntil
from scheduler.framework.plugin import PermitPlugin
from scheduler.framework.rejection import Allow, PermitAnswer, Reject, Wait
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

PERMIT_SECONDS_MAXIMUM: Final = 15 * 60.0
"""Upstream's maxTimeout."""


class PermitCaller(Protocol):
    """Calls permit plugins, and provides what conditions are evaluated on."""

    def call_permit(
        self, attempt: BindingAttempt, plugin: PermitPlugin, waiting: Sequence[Pod]
    ) -> PermitAnswer:
        """Return the answer of one plugin."""

    def view(self) -> NodeTable:
        """Return the cluster as it is known now."""


@dataclass(frozen=True, slots=True)
class Released:
    """How the wait for permits ended.

    Args:
        plugin: The plugin that ended it; empty where none did.
        why: Why the pod is not bound; empty where it is allowed.
        is_error: Whether the plugin failed, or the pod is a victim, rather than being rejected.
    """

    plugin: str = ""
    why: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class _PendingPermit:
    plugin: PermitPlugin
    seconds: float
    until: float


@dataclass(slots=True, eq=False)
class _WaitingPod:
    attempt: BindingAttempt
    permits: dict[str, _PendingPermit]
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
    """Pods that wait for permits, and pods that wait for a condition of a pre-bind plugin.

    Args:
        plugins: Calls the permit plugins again.
    """

    def __init__(self, plugins: PermitCaller) -> None:
        self._plugins = plugins
        self._by_uid: dict[str, _WaitingPod] = {}
        self._pods: tuple[Pod, ...] | None = None
        self._conditions: list[_Condition] = []

    def __len__(self) -> int:
        return len(self._by_uid) + len(self._conditions)

    def __contains__(self, uid: str) -> bool:
        """Tell whether a pod waits for permits."""
        return uid in self._by_uid

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods that wait for permits."""
        # Every permit plugin gets all of them for every waiting pod: one tuple until that changes.
        if self._pods is None:
            self._pods = tuple(waiting.attempt.pod for waiting in self._by_uid.values())
        return self._pods

    def add(
        self, attempt: BindingAttempt, waits: Sequence[tuple[PermitPlugin, Wait]], now: float
    ) -> "asyncio.Future[Released]":
        """Let a pod wait until all plugins of *waits* allow it, one rejects it, or time is up."""
        assert waits, f"{attempt.pod.key} waits for no plugin"
        assert attempt.pod.uid not in self._by_uid, f"{attempt.pod.key} waits already"
        permits = {}
        for plugin, wait in waits:
            seconds = min(wait.seconds, PERMIT_SECONDS_MAXIMUM)
            permits[plugin.name] = _PendingPermit(plugin, seconds, now + seconds)
        waiting = self._by_uid[attempt.pod.uid] = _WaitingPod(attempt, permits)
        self._pods = None
        return waiting.done

    def reject(self, uid: str, why: str) -> bool:
        """End a pod's wait for permits with a rejection; False where it waits for none."""
        return self._end(uid, Released("", why))

    def cancel(self, uid: str, why: str) -> bool:
        """End a victim's wait for permits with an error; False where it waits for none."""
        return self._end(uid, Released("", why, is_error=True))

    def cancel_conditions(self, uid: str, why: str) -> None:
        """End a pod's wait for conditions, if it waits for any."""
        for condition in self._conditions:
            if condition.uid == uid and not condition.done.done():
                condition.done.set_result(why)

    def cancel_all(self) -> None:
        """End every wait: the process stops, and no pod is bound any more."""
        for waiting in self._by_uid.values():
            waiting.done.cancel()
        self._by_uid.clear()
        self._pods = None
        for condition in self._conditions:
            condition.done.cancel()

    async def until(self, pod: Pod, wait: WaitUntil) -> str:
        """Return once the condition is true: empty, or why it never became so."""
        condition = _Condition(pod.uid, wait)
        self._conditions.append(condition)
        self._check_condition(condition)
        try:
            return await asyncio.wait_for(condition.done, wait.timeout_seconds)
        except TimeoutError:
            return f"{wait.what} did not happen within {wait.timeout_seconds:g}s"
        finally:
            self._conditions.remove(condition)

    def recheck(self, now: float) -> Iterator[None]:
        """Check every waiting pod again: facts were applied, or time has passed.

        Yields after each, since a thousand may wait.
        """
        for waiting in tuple(self._by_uid.values()):
            if not waiting.done.done():
                self._recheck_permits(waiting, now)
                yield
        for condition in tuple(self._conditions):
            if not condition.done.done():
                self._check_condition(condition)
                yield

    def next_deadline(self) -> float | None:
        """Return when the next wait for a permit runs out."""
        return min(
            (
                permit.until
                for waiting in self._by_uid.values()
                for permit in waiting.permits.values()
            ),
            default=None,
        )

    def _recheck_permits(self, waiting: _WaitingPod, now: float) -> None:
        uid = waiting.attempt.pod.uid
        for name, permit in list(waiting.permits.items()):
            try:
                answer = self._plugins.call_permit(waiting.attempt, permit.plugin, self.pods)
            except PluginError as bug:
                self._end(uid, Released(name, str(bug), is_error=True))
                return
            if isinstance(answer, Allow):
                del waiting.permits[name]
            elif isinstance(answer, Reject):
                self._end(uid, Released(name, answer.reason))
                return
            elif now >= permit.until:
                waited = format_seconds(permit.seconds)
                why = f"rejected due to timeout after waiting {waited} at plugin {name}"
                self._end(uid, Released(name, why))
                return
        if not waiting.permits:
            self._end(uid, Released())

    def _end(self, uid: str, result: Released) -> bool:
        waiting = self._by_uid.pop(uid, None)
        if waiting is None:
            return False
        self._pods = None
        if not waiting.done.done():
            waiting.done.set_result(result)
        return True

    def _check_condition(self, condition: _Condition) -> None:
        try:
            answer = condition.wait.condition(self._plugins.view())
        except Exception as bug:  # noqa: BLE001 - a plugin's question, which ends its own wait alone
            answer = f"asking for {condition.wait.what} raised {type(bug).__name__}: {bug}"
        if answer and not condition.done.done():
            condition.done.set_result("" if answer is True else str(answer))
