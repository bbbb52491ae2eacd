"""Which change could help which pod: what plugins said about events, compiled for quick answers."""

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
    """What the queue asks of one profile's plugins.

    Args:
        gates: Plugins that may keep a pod out of the queue, in the order in which they are asked.
        requeue: What could help pods that a plugin turned away, by the plugin's name.
    """

    gates: Sequence[PreEnqueuePlugin]
    requeue: Mapping[str, Sequence[Requeue]]


def rules_for(plugins: Iterable[Plugin]) -> ProfileRules:
    """Gather what *plugins* say about gates and events."""
    known = tuple(plugins)
    return ProfileRules(
        gates=tuple(plugin for plugin in known if isinstance(plugin, PreEnqueuePlugin)),
        requeue={p.name: _registrations(p) for p in known if isinstance(p, _REJECTORS)},
    )


def _registrations(plugin: Plugin) -> tuple[Requeue, ...]:
    said = requeue_of(plugin)
    if said is None:
        # Upstream lists resources here and leaves some out; a plugin that does not say what could
        # help is better asked too often than forgotten.
        return (_ANYTHING,)
    node_events = [each.event.action for each in said if each.event.resource == NODE]
    hears_of_new = any(action & Action.ADD for action in node_events)
    hears_of_taints = any(action & Action.UPDATE_NODE_TAINT for action in node_events)
    # A node that joins may be useful only once its taints are gone, and filters stop at the first
    # plugin that refuses: whoever refused before taints were looked at must hear of them too.
    return (*said, _TAINT_CHANGED) if hears_of_new and not hears_of_taints else tuple(said)


class Verdict(Enum):
    """What a change means for a pod that waits."""

    WAIT = auto()
    AFTER_BACKOFF = auto()
    AT_ONCE = auto()


class Match(NamedTuple):
    """Who cares about an event.

    Args:
        hints: Plugins and their hints, by profile.
        rejectors: Pairs of profile and plugin.
        gates: Names of plugins; a gate hears what the plugin of that name hears in any profile.
    """

    hints: Mapping[str, tuple[tuple[str, Hint | None], ...]]
    rejectors: tuple[tuple[str, str], ...]
    gates: tuple[str, ...]


class Hints:
    """What all profiles' plugins said about events."""

    def __init__(self, rules: Mapping[str, ProfileRules], observer: QueueObserver) -> None:
        self._rules = rules
        self._observer = observer
        self._matches: dict[ClusterEvent, Match] = {}

    def match(self, event: ClusterEvent) -> Match:
        """Tell who cares about *event*; the answer is kept, since kinds of events are few."""
        match = self._matches.get(event)
        if match is None:
            match = self._matches[event] = self._find(event)
        return match

    def verdict(self, queued: QueuedPod, change: Change) -> Verdict:
        """Tell whether *change* could help *queued*, in the eyes of those who turned it away."""
        if not queued.rejected_by:
            return Verdict.AFTER_BACKOFF
        if change.event.wildcard:
            meant = change.new is None or change.new.metadata.uid == queued.pod.uid
            return Verdict.AFTER_BACKOFF if meant else Verdict.WAIT
        if queued.pod.spec.scheduler_name not in self._rules:
            return Verdict.AFTER_BACKOFF
        return self._ask(queued, change)

    def verdict_over(self, queued: QueuedPod, changes: Iterable[Change] | None) -> Verdict:
        """Tell what all of *changes* mean for *queued*; None where they are not known."""
        if not queued.rejected_by or changes is None:
            return Verdict.AFTER_BACKOFF
        best = Verdict.WAIT
        for change in changes:
            verdict = self.verdict(queued, change)
            if verdict is not Verdict.WAIT:
                best = verdict
                if verdict is Verdict.AT_ONCE or not queued.pending:
                    break
        return best

    def _ask(self, queued: QueuedPod, change: Change) -> Verdict:
        best = Verdict.WAIT
        for plugin, hint in self.match(change.event).hints[queued.pod.spec.scheduler_name]:
            if plugin in queued.rejected_by and self._agrees(plugin, hint, queued, change):
                if plugin in queued.pending:
                    return Verdict.AT_ONCE
                best = Verdict.AFTER_BACKOFF
                if not queued.pending:
                    break
        return best

    def _agrees(self, plugin: str, hint: Hint | None, queued: QueuedPod, change: Change) -> bool:

        def ask() -> str:
            try:
                agrees = hint is None or hint(queued.pod, change)
            except Exception:  # noqa: BLE001 - a hint that cannot tell must not strand the pod
                return "Error"
            return "Queue" if agrees else "QueueSkip"

        return self._observer.hint(plugin, change.event.label, ask) != "QueueSkip"

    def _find(self, event: ClusterEvent) -> Match:
        hints = {profile: _matching(rules, event) for profile, rules in self._rules.items()}
        rejectors = [(profile, name) for profile, found in hints.items() for name, _ in found]
        gates = (name for _, name in rejectors)
        return Match(hints, tuple(dict.fromkeys(rejectors)), tuple(dict.fromkeys(gates)))


def _matching(rules: ProfileRules, event: ClusterEvent) -> tuple[tuple[str, Hint | None], ...]:
    return tuple(
        (plugin, requeue.hint)
        for plugin, registrations in rules.requeue.items()
        for requeue in registrations
        if requeue.event.covers(event)
    )
