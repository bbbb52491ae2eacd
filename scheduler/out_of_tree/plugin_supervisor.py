"""Plugins by users are given a time limit and three chances; the scheduler goes on in any case.

==============================================  ====================================================
a plugin that …                                 …
==============================================  ====================================================
raises, or answers in the wrong shape           is named; the pod is tried again after a backoff
gives no answer for too long                    is broken off, and the same
fails three times in a row, at Score            is switched off there; pods are placed without it
fails for three pods in a row, anywhere else    stops its profile: its pods wait, others go on
==============================================  ====================================================

A pod that a plugin cannot read is no failure of the plugin. At other points than Score a single pod
cannot stop a profile, however often it is tried: it may be the pod.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from scheduler.errors import MalformedObject, PluginError
from scheduler.framework import checked_calls
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

CHANCES: Final = 3
_SCORE: Final = "Score"
# What fails here is survived at once: a hint that fails wakes the pod, a key that fails is the
# first of all, and what is not unreserved is the plugin's own affair.
_HARMLESS: Final = frozenset({"QueueingHint", "QueueSort", "Unreserve"})


class SupervisorObserver(Protocol):
    """Hears what becomes of plugins."""

    def plugin_failed(self, plugin: str, point: str, error: str) -> None:
        """A plugin raised, stalled or answered in the wrong shape."""

    def plugin_stalled(self, plugin: str, point: str, seconds: float) -> None:
        """A plugin was broken off."""

    def plugin_disabled(self, profile: str, plugin: str, why: str) -> None:
        """A score plugin was switched off."""

    def profile_stopped(self, profile: str, plugin: str, why: str) -> None:
        """A profile takes no pods any more."""


@dataclass(frozen=True, slots=True)
class _Key:
    profile: str
    plugin: str
    point: str


class PluginSupervisor:
    """Knows which plugins are out-of-tree, and how they have been doing.

    Args:
        profiles: By scheduler name.
        out_of_tree: By scheduler name, the plugins that did not come with the scheduler.
        observer: Hears what becomes of them.
        timer: Breaks off those that stall.
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
        """Look after other profiles, with a clean slate.

        Plugins of the earlier ones, which some pods are still held by, stay known as out-of-tree.
        """
        self.stopped.clear()
        self._failures.clear()
        self._profiles = dict(profiles)
        for name, plugins in out_of_tree.items():
            self._out_of_tree[name] = frozenset((*plugins, *self._out_of_tree.get(name, ())))

    @property
    def names(self) -> frozenset[str]:
        """The scheduler names that there are profiles for."""
        return frozenset(self._profiles)

    def profile(self, name: str) -> Profile | None:
        """Return the profile *name* with the plugins that still work."""
        return self._profiles.get(name)

    def check(self) -> str | None:
        """Say which profiles are stopped; None where all are well."""
        return "; ".join(self.stopped.values()) or None

    def is_out_of_tree(self, profile: Profile, plugin: str) -> bool:
        """Tell whether *plugin* did not come with the scheduler."""
        return plugin in self._out_of_tree.get(profile.scheduler_name, ())

    # Where plugins are asked.

    def watch(self, profile: Profile, pod: Pod, inner: Observer = SILENT) -> Observer:
        """Return who looks after *profile*'s plugins while they are asked about *pod*."""
        out_of_tree = self._out_of_tree.get(profile.scheduler_name)
        return _Watch(self, profile, out_of_tree, pod, inner) if out_of_tree else inner

    def method(
        self, point: str, profile: Profile, plugin: str, question: Callable[..., R]
    ) -> Callable[..., R]:
        """Return *question*, a method whose first argument is a pod, as it may safely be asked."""
        if not self.is_out_of_tree(profile, plugin):
            return question
        return lambda pod, *args: call_plugin(
            point, plugin, self.watch(profile, pod), question, pod, *args
        )

    def rules(self, profile: Profile, rules: ProfileRules) -> ProfileRules:
        """Return *rules*, what the queue asks of plugins, as it may safely be asked."""
        return ProfileRules(
            gates=[self._gate(profile, gate) for gate in rules.gates],
            requeue={
                plugin: [self._requeue(profile, plugin, each) for each in said]
                for plugin, said in rules.requeue.items()
            },
        )

    def _gate(self, profile: Profile, gate: PreEnqueuePlugin) -> PreEnqueuePlugin:
        if not self.is_out_of_tree(profile, gate.name):
            return gate
        call = partial(checked_calls.pre_enqueue, gate)
        return _Gate(gate.name, self.method("PreEnqueue", profile, gate.name, call))

    def _requeue(self, profile: Profile, plugin: str, said: Requeue) -> Requeue:
        if said.hint is None:
            return said
        hint: Hint = self.method("QueueingHint", profile, plugin, said.hint)
        return Requeue(said.event, hint)

    # What becomes of them.

    def succeeded(self, profile: Profile, plugin: str, point: str) -> None:
        """Forget earlier failures."""
        if self._failures and self._is_current(profile):
            self._failures.pop(_Key(profile.scheduler_name, plugin, point), None)

    def failed(
        self, profile: Profile, plugin: str, point: str, pod: Pod, error: PluginError
    ) -> None:
        """Count a failure, and draw the line where there have been enough."""
        self._observer.plugin_failed(plugin, point, str(error))
        if point in _HARMLESS or not self._is_current(profile):
            return
        name = profile.scheduler_name
        failures = self._failures.setdefault(_Key(name, plugin, point), [])
        if len(failures) < CHANCES and (point == _SCORE or pod.uid not in failures):
            failures.append(pod.uid)
        if len(failures) < CHANCES:
            return
        if point == _SCORE:
            self._disable(name, plugin, str(error))
        elif name not in self.stopped:
            self._stop(name, plugin, str(error))

    def _is_current(self, profile: Profile) -> bool:
        """Tell whether *profile* was not replaced: what its plugins do later is nobody's fault."""
        current = self._profiles.get(profile.scheduler_name)
        return current is not None and current.generation == profile.generation

    def stalled(self, plugin: str, point: str) -> PluginError:
        """Report a plugin that was broken off, and return what it is blamed for."""
        self._observer.plugin_stalled(plugin, point, self.timer.seconds)
        return self.timer.blame(plugin, point)

    def _disable(self, name: str, plugin: str, why: str) -> None:
        profile = self._profiles[name]
        remaining = tuple(each for each in profile.score if each.plugin.name != plugin)
        self._profiles[name] = replace(profile, score=remaining)
        self._observer.plugin_disabled(name, plugin, why)

    def _stop(self, name: str, plugin: str, why: str) -> None:
        self.stopped[name] = (
            f"profile {name} is stopped, since {why}; "
            f"correct plugin {plugin} and restart the scheduler, or disable it"
        )
        self._observer.profile_stopped(name, plugin, why)


@dataclass(slots=True)
class _Gate:
    """A gate whose failures are counted."""

    name: str
    method: Callable[[Pod], Gate | None]

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Tell why *pod* must wait outside; None lets it in."""
        return self.method(pod)


@dataclass(slots=True)
class _Watch:
    """Looks after the out-of-tree plugins of one profile for one pod.

    Args:
        answering: Whether the turn that goes on right now ends with an answer, as most do: pausing
            well is no success yet.
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
        """Enclose one plugin's turn."""
        turn = self.inner.plugin(point, plugin)
        return _Turn(self, point, plugin, turn) if plugin in self.out_of_tree else turn

    def asked(self, point: str, plugin: str, times: int) -> None:
        """A plugin was asked: about *times* nodes, at points that are about nodes."""
        self.inner.asked(point, plugin, times)

    def unmeasured(self) -> Observer:
        """Look after plugins that another one asks."""
        return replace(self, inner=self.inner.unmeasured(), answering=True)

    def paused(self, point: str, plugin: str) -> None:
        """A plugin's turn ends without an answer: it goes on after a pause, in another turn."""
        self.answering = False
        self.inner.paused(point, plugin)


class _Turn:
    """One turn of an out-of-tree plugin, against the clock."""

    __slots__ = ("_inner", "_plugin", "_point", "_watch")

    def __init__(
        self, watch: _Watch, point: str, plugin: str, inner: AbstractContextManager[Any]
    ) -> None:
        self._watch = watch
        self._point = point
        self._plugin = plugin
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._watch.supervisor.timer.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        watch = self._watch
        watch.supervisor.timer.leave()
        self._inner.__exit__(kind, error, trace)
        blame = error
        if isinstance(error, Stalled):
            blame = watch.supervisor.stalled(self._plugin, self._point)
        if blame is None:
            if watch.answering:
                watch.supervisor.succeeded(watch.profile, self._plugin, self._point)
            watch.answering = True
        elif isinstance(blame, PluginError) and self._is_fault(blame):
            watch.supervisor.failed(watch.profile, self._plugin, self._point, watch.pod, blame)
        if blame is not error and blame is not None:
            raise blame from None

    def _is_fault(self, error: PluginError) -> bool:
        """Tell whether *error* is this plugin's own, and not the pod's.

        Another's passes through a post-filter plugin that asks the filters again.
        """
        return error.plugin == self._plugin and not isinstance(error.__cause__, MalformedObject)
