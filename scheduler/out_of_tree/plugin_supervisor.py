"""Limits the time of out-of-tree plugins and counts their failures; the scheduler goes on.

==============================================  ====================================================
a plugin that …                                 …
==============================================  ====================================================
raises, or returns an invalid value             is named; the pod is retried after a backoff
does not return in time                         is interrupted, and then the same
fails three times in a row, at Score            is disabled there; nodes are scored without it
fails for three pods in a row, anywhere else    stops its profile: its pods wait, others go on
==============================================  ====================================================

A pod that a plugin cannot read is no failure of the plugin. At other points than Score a single pod
cannot stop a profile, however often it is retried: the pod may be the cause. A plugin that fails at
Score only makes placements worse; without one that filters, pods could land where they must not.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from scheduler.errors import MalformedObject, PluginError
from scheduler.framework import invoke
from scheduler.framework.cluster_event import Hint, Requeue
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import SILENT, Ending, Observer
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import Gate
from scheduler.model.pod import Pod
from scheduler.out_of_tree.stall_timer import Stalled, StallTimer
from scheduler.queue.hints import ProfileRules

R = TypeVar("R")

FAILURES_MAXIMUM: Final = 3
_SCORE: Final = "Score"
# A failure here does no lasting harm: a hint that fails counts as Queue, a pod whose sort key fails
# comes first, and what is not unreserved is the plugin's own state.
_HARMLESS: Final = frozenset({"QueueingHint", "QueueSort", "Unreserve"})


class SupervisorObserver(Protocol):
    """Is called when out-of-tree plugins fail."""

    def plugin_failed(self, plugin: str, point: str, error: str) -> None:
        """A plugin raised, stalled or returned an invalid value."""

    def plugin_stalled(self, plugin: str, point: str, seconds: float) -> None:
        """A plugin was interrupted."""

    def plugin_disabled(self, profile: str, plugin: str, why: str) -> None:
        """A score plugin was disabled."""

    def profile_stopped(self, profile: str, plugin: str, why: str) -> None:
        """A profile schedules no more pods."""


@dataclass(frozen=True, slots=True)
class _Key:
    profile: str
    plugin: str
    point: str


class PluginSupervisor:
    """The profiles, which of their plugins are out-of-tree, and how often these failed.

    Args:
        profiles: By scheduler name.
        out_of_tree: By scheduler name, the plugins that did not come with the scheduler.
        observer: Is called when they fail.
        timer: Interrupts those that stall.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        out_of_tree: Mapping[str, Collection[str]],
        observer: SupervisorObserver,
        timer: StallTimer | None = None,
    ) -> None:
        self.stopped: dict[str, str] = {}
        self.timer = timer or StallTimer()
        self._profiles = dict(profiles)
        self._out_of_tree = dict(out_of_tree)
        self._observer = observer
        self._failures: dict[_Key, list[str]] = {}

    def replace(
        self, profiles: Mapping[str, Profile], out_of_tree: Mapping[str, Collection[str]]
    ) -> None:
        """Supervise other profiles, and forget all failures.

        Plugins of the earlier profiles stay known as out-of-tree: pods in the binding cycle still
        pass through them.
        """
        self.stopped.clear()
        self._failures.clear()
        self._profiles = dict(profiles)
        for name, plugins in out_of_tree.items():
            self._out_of_tree[name] = frozenset((*plugins, *self._out_of_tree.get(name, ())))

    @property
    def names(self) -> frozenset[str]:
        """The scheduler names of the profiles."""
        return frozenset(self._profiles)

    def profile(self, name: str) -> Profile | None:
        """Return the profile *name* without its disabled plugins; None if there is none."""
        return self._profiles.get(name)

    def check(self) -> str | None:
        """Return which profiles are stopped and why; None if none is."""
        return "; ".join(self.stopped.values()) or None

    def is_out_of_tree(self, profile: Profile, plugin: str) -> bool:
        """Tell whether *plugin* did not come with the scheduler."""
        return plugin in self._out_of_tree.get(profile.scheduler_name, ())

    # Calls of plugins.

    def observer_for(self, profile: Profile, pod: Pod, inner: Observer = SILENT) -> Observer:
        """Return an observer that supervises *profile*'s plugins in one cycle of *pod*."""
        out_of_tree = self._out_of_tree.get(profile.scheduler_name)
        # Most profiles have in-tree plugins only: those must not pay for this.
        return _Supervision(self, profile, out_of_tree, pod, inner) if out_of_tree else inner

    def method(
        self, point: str, profile: Profile, plugin: str, method: Callable[..., R]
    ) -> Callable[..., R]:
        """Return *method*, whose first argument is a pod, under supervision."""
        if not self.is_out_of_tree(profile, plugin):
            return method
        return lambda pod, *args: call_plugin(
            point, plugin, self.observer_for(profile, pod), method, pod, *args
        )

    def rules(self, profile: Profile, rules: ProfileRules) -> ProfileRules:
        """Return *rules*, the gates and hints that the queue calls, under supervision."""
        return ProfileRules(
            gates=[self._gate(profile, gate) for gate in rules.gates],
            requeue={
                plugin: [self._requeue(profile, plugin, each) for each in requeue]
                for plugin, requeue in rules.requeue.items()
            },
        )

    def _gate(self, profile: Profile, gate: PreEnqueuePlugin) -> PreEnqueuePlugin:
        if not self.is_out_of_tree(profile, gate.name):
            return gate
        call = partial(invoke.pre_enqueue, gate)
        return _SupervisedGate(gate.name, self.method("PreEnqueue", profile, gate.name, call))

    def _requeue(self, profile: Profile, plugin: str, rule: Requeue) -> Requeue:
        if rule.hint is None:
            return rule
        hint: Hint = self.method("QueueingHint", profile, plugin, rule.hint)
        return Requeue(rule.event, hint)

    # Failures.

    def succeeded(self, profile: Profile, plugin: str, point: str) -> None:
        """Forget earlier failures of *plugin* at *point*: only those in a row count."""
        if self._failures and self._is_current(profile):
            self._failures.pop(_Key(profile.scheduler_name, plugin, point), None)

    def failed(
        self, profile: Profile, plugin: str, point: str, pod: Pod, error: PluginError
    ) -> None:
        """Count a failure, and disable the plugin or stop its profile after the third."""
        self._observer.plugin_failed(plugin, point, str(error))
        if point in _HARMLESS or not self._is_current(profile):
            return
        name = profile.scheduler_name
        failures = self._failures.setdefault(_Key(name, plugin, point), [])
        if len(failures) < FAILURES_MAXIMUM and (point == _SCORE or pod.uid not in failures):
            failures.append(pod.uid)
        assert 0 < len(failures) <= FAILURES_MAXIMUM, f"{len(failures)} failures of {plugin}"
        if len(failures) < FAILURES_MAXIMUM:
            return
        if point == _SCORE:
            self._disable(name, plugin, str(error))
        elif name not in self.stopped:
            self._stop(name, plugin, str(error))

    def _is_current(self, profile: Profile) -> bool:
        """Tell whether *profile* is in force: failures of replaced plugins have no consequence."""
        current = self._profiles.get(profile.scheduler_name)
        return current is not None and current.generation == profile.generation

    def stalled(self, plugin: str, point: str) -> PluginError:
        """Report a plugin that was interrupted, and return its error."""
        self._observer.plugin_stalled(plugin, point, self.timer.seconds)
        return self.timer.error_of(plugin, point)

    def _disable(self, name: str, plugin: str, why: str) -> None:
        profile = self._profiles[name]
        remaining = tuple(each for each in profile.score if each.plugin.name != plugin)
        assert len(remaining) < len(profile.score), f"{plugin} is not among {name}'s score plugins"
        self._profiles[name] = replace(profile, score=remaining)
        self._observer.plugin_disabled(name, plugin, why)

    def _stop(self, name: str, plugin: str, why: str) -> None:
        assert name not in self.stopped, f"profile {name} is stopped already"
        self.stopped[name] = (
            f"profile {name} is stopped, since {why}; "
            f"correct plugin {plugin} and restart the scheduler, or disable it"
        )
        self._observer.profile_stopped(name, plugin, why)


@dataclass(slots=True)
class _SupervisedGate:
    """A PreEnqueue plugin whose failures are counted."""

    name: str
    method: Callable[[Pod], Gate | None]

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Return why *pod* must not enter the queue; None if it may."""
        return self.method(pod)


@dataclass(slots=True)
class _Supervision:
    """Supervises the out-of-tree plugins of one profile in one cycle of a pod.

    Args:
        answering: Whether the plugin's current call ends with an answer, as most do. A generator or
            coroutine that only pauses has not succeeded yet.
    """

    supervisor: PluginSupervisor
    profile: Profile
    out_of_tree: Collection[str]
    pod: Pod
    inner: Observer
    answering: bool = True

    def extension_point(self, point: str) -> AbstractContextManager[Ending]:
        """Enclose one run of an extension point."""
        return self.inner.extension_point(point)

    def plugin(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Enclose one call of a plugin."""
        call = self.inner.plugin(point, plugin)
        return _SupervisedCall(self, point, plugin, call) if plugin in self.out_of_tree else call

    def evaluated(self, point: str, plugin: str, times: int) -> None:
        """A plugin was called: about *times* nodes, at points that are about nodes."""
        self.inner.evaluated(point, plugin, times)

    def unmeasured(self) -> Observer:
        """Supervise plugins that another plugin calls, without timing them."""
        return replace(self, inner=self.inner.unmeasured(), answering=True)

    def paused(self, point: str, plugin: str) -> None:
        """A plugin's call ends without an answer: it resumes after a pause, in another call."""
        self.answering = False
        self.inner.paused(point, plugin)


class _SupervisedCall:
    """One call of an out-of-tree plugin, within the time limit."""

    __slots__ = ("_inner", "_plugin", "_point", "_supervision")

    def __init__(
        self,
        supervision: _Supervision,
        point: str,
        plugin: str,
        inner: AbstractContextManager[Any],
    ) -> None:
        self._supervision = supervision
        self._point = point
        self._plugin = plugin
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._supervision.supervisor.timer.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        supervision = self._supervision
        supervisor = supervision.supervisor
        supervisor.timer.leave()
        self._inner.__exit__(kind, error, trace)
        cause = error
        if isinstance(error, Stalled):
            cause = supervisor.stalled(self._plugin, self._point)
        if cause is None:
            if supervision.answering:
                supervisor.succeeded(supervision.profile, self._plugin, self._point)
            supervision.answering = True
        elif isinstance(cause, PluginError) and self._is_fault(cause):
            supervisor.failed(
                supervision.profile, self._plugin, self._point, supervision.pod, cause
            )
        if cause is not error and cause is not None:
            raise cause from None

    def _is_fault(self, error: PluginError) -> bool:
        """Tell whether *error* is this plugin's own, and not the pod's.

        A PostFilter plugin calls the filters again, and passes their errors on.
        """
        return error.plugin == self._plugin and not isinstance(error.__cause__, MalformedObject)
