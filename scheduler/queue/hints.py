"""Queueing hints: which change could help which pod, looked up by event."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from scheduler.framework.cluster_event import (
    ANY,
    NODE,
    Action,
    Change,
    ClusterEvent,
    Hint,
    Requeue,
)
from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    requeue_of,
)
from scheduler.queue.observer import QueueObserver
from scheduler.queue.queued_pod import QueuedPod

_REJECTORS: Final = (
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    ReservePlugin,
    PermitPlugin,
)
_ANYTHING: Final = Requeue(ClusterEvent(ANY, Action.ALL))
_TAINT_CHANGED: Final = Requeue(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT))


@dataclass(frozen=True)
class ProfileRules:
    """What the queue needs to know of one profile's plugins.

    Args:
        gates: Plugins that may keep a pod out of the queue, in the order in which they run.
        requeue: What could help pods that a plugin rejected, by the plugin's name.
    """

    gates: Sequence[PreEnqueuePlugin]
    requeue: Mapping[str, Sequence[Requeue]]


def rules_for(plugins: Iterable[Plugin]) -> ProfileRules:
    """Gather the gates and the registered events of *plugins*."""
    known = tuple(plugins)
    return ProfileRules(
        gates=tuple(plugin for plugin in known if isinstance(plugin, PreEnqueuePlugin)),
        requeue={p.name: _registrations(p) for p in known if isinstance(p, _REJECTORS)},
    )


def _registrations(plugin: Plugin) -> tuple[Requeue, ...]:
    registered = requeue_of(plugin)
    if registered is None:
        # Upstream registers a fixed list of resources for such a plugin, from which some are
        # missing. An event too many costs one attempt; an event that is missing leaves the pod to
        # wait until the timeout of five minutes.
        return (_ANYTHING,)
    node_events = [each.event.action for each in registered if each.event.resource == NODE]
    sees_new_nodes = any(action & Action.ADD for action in node_events)
    sees_taints = any(action & Action.UPDATE_NODE_TAINT for action in node_events)
    # A new node may become useful only once its taints are removed, and filters stop at the first
    # plugin that rejects: a plugin that rejects before TaintToleration runs would miss the moment.
    if sees_new_nodes and not sees_taints:
        return (*registered, _TAINT_CHANGED)
    return tuple(registered)


class QueueingStrategy(Enum):
    """What a change means for a pod that waits; upstream's queueingStrategy."""

    SKIP = auto()
    AFTER_BACKOFF = auto()
    IMMEDIATELY = auto()


class Registered(NamedTuple):
    """The plugins that registered for one event.

    Args:
        hints: Plugins and their hints, by profile.
        rejectors: Pairs of profile and plugin.
        gates: Names of plugins; a gate sees an event if the plugin registered it in any profile.
    """

    hints: Mapping[str, tuple[tuple[str, Hint | None], ...]]
    rejectors: tuple[tuple[str, str], ...]
    gates: tuple[str, ...]


class Hints:
    """The queueing hints of all profiles."""

    def __init__(self, rules: Mapping[str, ProfileRules], observer: QueueObserver) -> None:
        self._rules = rules
        self._observer = observer
        self._registered: dict[ClusterEvent, Registered] = {}

    def registered_for(self, event: ClusterEvent) -> Registered:
        """Return the plugins that registered for *event*; kept, since kinds of events are few."""
        registered = self._registered.get(event)
        if registered is None:
            registered = self._registered[event] = self._find(event)
        return registered

    def strategy(self, queued: QueuedPod, change: Change) -> QueueingStrategy:
        """Return what *change* means for *queued*, by the plugins that rejected it."""
        if not queued.rejected_by:
            return QueueingStrategy.AFTER_BACKOFF
        if change.event.wildcard:
            # A wildcard event is about all pods, or about the one that it carries (ForceActivate).
            concerned = change.new is None or change.new.metadata.uid == queued.pod.uid
            return QueueingStrategy.AFTER_BACKOFF if concerned else QueueingStrategy.SKIP
        if queued.pod.spec.scheduler_name not in self._rules:
            # Its profile was removed. The next attempt reports that; nothing else would.
            return QueueingStrategy.AFTER_BACKOFF
        best = QueueingStrategy.SKIP
        hints = self.registered_for(change.event).hints[queued.pod.spec.scheduler_name]
        for plugin, hint in hints:
            if plugin in queued.rejected_by and self._helps(plugin, hint, queued, change):
                if plugin in queued.pending:
                    return QueueingStrategy.IMMEDIATELY
                best = QueueingStrategy.AFTER_BACKOFF
                if not queued.pending:
                    break
        return best

    def strategy_over(
        self, queued: QueuedPod, changes: Iterable[Change] | None
    ) -> QueueingStrategy:
        """Return what all of *changes* mean for *queued*; None where they are not known."""
        if not queued.rejected_by or changes is None:
            return QueueingStrategy.AFTER_BACKOFF
        best = QueueingStrategy.SKIP
        for change in changes:
            strategy = self.strategy(queued, change)
            if strategy is not QueueingStrategy.SKIP:
                best = strategy
                if strategy is QueueingStrategy.IMMEDIATELY or not queued.pending:
                    break
        return best

    def _helps(self, plugin: str, hint: Hint | None, queued: QueuedPod, change: Change) -> bool:
        began = self._observer.began()
        try:
            helps = hint is None or hint(queued.pod, change)
            result = "Queue" if helps else "QueueSkip"
        except Exception:  # noqa: BLE001 - a hint that fails must not strand the pod
            result = "Error"
        self._observer.hint(plugin, change.event.label, result, began)
        return result != "QueueSkip"

    def _find(self, event: ClusterEvent) -> Registered:
        hints = {profile: _matching(rules, event) for profile, rules in self._rules.items()}
        rejectors = [(profile, name) for profile, found in hints.items() for name, _ in found]
        gates = (name for _, name in rejectors)
        return Registered(hints, tuple(dict.fromkeys(rejectors)), tuple(dict.fromkeys(gates)))


def _matching(rules: ProfileRules, event: ClusterEvent) -> tuple[tuple[str, Hint | None], ...]:
    return tuple(
        (plugin, requeue.hint)
        for plugin, registrations in rules.requeue.items()
        for requeue in registrations
        if requeue.event.covers(event)
    )
