"""Gates: plugins that keep a pod out of the queue for a while."""

from collections.abc import Iterator, Mapping

from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.rejection import Gate
from scheduler.model.pod import Pod
from scheduler.queue.hints import ProfileRules
from scheduler.queue.observer import QueueObserver
from scheduler.queue.queued_pod import QueuedPod


class Gates:
    """The gates of all profiles."""

    def __init__(self, rules: Mapping[str, ProfileRules], observer: QueueObserver) -> None:
        self._rules = rules
        self._observer = observer

    def closed_for(self, queued: QueuedPod) -> bool:
        """Tell whether *queued* must wait outside, and note on it who says so."""
        profile = queued.pod.spec.scheduler_name
        rules = self._rules.get(profile)
        if rules and self._observer.pre_enqueue(profile, lambda: self._is_closed(rules, queued)):
            return True
        queued.gated_by = queued.gate_reason = ""
        return False

    def _is_closed(self, rules: ProfileRules, queued: QueuedPod) -> bool:
        for plugin in _in_turn(rules, queued.gated_by):
            gate = _ask(plugin, queued.pod)
            if gate is not None:
                self._note(queued, plugin.name, gate)
                return True
        return False

    def _note(self, queued: QueuedPod, plugin: str, gate: Gate) -> None:
        queued.gated_by, queued.gate_reason = plugin, gate.reason
        if plugin not in queued.rejected_by:
            queued.rejected_by |= {plugin}
            profile = queued.pod.spec.scheduler_name
            self._observer.unschedulable_delta(plugin, profile, 1)


def _in_turn(rules: ProfileRules, first: str) -> Iterator[PreEnqueuePlugin]:
    """Yield the gates, the one that was closed last time first: it most likely still is."""
    if not first:
        yield from rules.gates
        return
    yield from (plugin for plugin in rules.gates if plugin.name == first)
    yield from (plugin for plugin in rules.gates if plugin.name != first)


def _ask(plugin: PreEnqueuePlugin, pod: Pod) -> Gate | None:
    try:
        return plugin.pre_enqueue(pod)
    except Exception as problem:  # noqa: BLE001 - a plugin's bug keeps its pods out, not the queue down
        return Gate(f"plugin {plugin.name!r} raised {problem!r}")
