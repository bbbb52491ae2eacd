"""Gates: PreEnqueue plugins, which keep a pod out of the queue for a while."""

from collections.abc import Mapping

from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.rejection import Gate
from scheduler.queue.hints import ProfileRules
from scheduler.queue.observer import QueueObserver
from scheduler.queue.queued_pod import QueuedPod


class Gates:
    """The gates of all profiles."""

    def __init__(self, rules: Mapping[str, ProfileRules], observer: QueueObserver) -> None:
        self._rules = rules
        self._observer = observer

    def is_closed_for(self, queued: QueuedPod) -> bool:
        """Run the gates for *queued*, and return whether one keeps it out; *queued* shows which."""
        profile = queued.pod.spec.scheduler_name
        rules = self._rules.get(profile)
        gates = rules.gates if rules else ()
        if queued.gated_by:
            # The gate that was closed last time most likely still is.
            gates = sorted(gates, key=lambda plugin: plugin.name != queued.gated_by)
        began = self._observer.began()
        for plugin in gates:
            try:
                gate = plugin.pre_enqueue(queued.pod)
            except Exception as problem:  # noqa: BLE001 - a bug keeps the plugin's pods out, no more
                gate = Gate(f"plugin {plugin.name!r} raised {problem!r}")
            if gate is not None:
                self._close(queued, plugin, gate)
                break
        else:
            queued.gated_by = queued.gate_reason = ""
        if rules:
            self._observer.pre_enqueue(profile, began)
        return bool(queued.gated_by)

    def _close(self, queued: QueuedPod, plugin: PreEnqueuePlugin, gate: Gate) -> None:
        assert plugin.name, "a gate without a name would look open"
        queued.gated_by, queued.gate_reason = plugin.name, gate.reason
        if plugin.name not in queued.rejected_by:
            queued.rejected_by |= {plugin.name}
            profile = queued.pod.spec.scheduler_name
            self._observer.unschedulable_delta(plugin.name, profile, 1)
