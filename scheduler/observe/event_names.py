"""The name of every log event: a noun and a past participle, fields beside it, no prose.

A line in a log leads here, and from here to the one place that writes it.
"""

from typing import Final

SCHEDULER_STARTED: Final = "scheduler.started"
SCHEDULER_STOPPED: Final = "scheduler.stopped"
SCHEDULER_FAILED: Final = "scheduler.failed"

CONFIGURATION_LOADED: Final = "configuration.loaded"
CONFIGURATION_IGNORED: Final = "configuration.ignored"
DEFAULT_PLUGINS_MISSED: Final = "default_plugins.missed"

POD_QUEUED: Final = "pod.queued"
POD_GATED: Final = "pod.gated"
POD_ASSUMED: Final = "pod.assumed"
POD_BOUND: Final = "pod.bound"
POD_PARKED: Final = "pod.parked"
POD_RETRIED: Final = "pod.retried"
POD_NOMINATED: Final = "pod.nominated"
POD_PREEMPTED: Final = "pod.preempted"
PREEMPTION_FAILED: Final = "preemption.failed"
POD_REFUSED: Final = "pod.refused"
POD_VANISHED: Final = "pod.vanished"
POD_WAITED: Final = "pod.waited"

BINDING_CONFLICTED: Final = "binding.conflicted"
BINDING_THROTTLED: Final = "binding.throttled"
BINDING_FAILED: Final = "binding.failed"
BINDING_ANSWER_LOST: Final = "binding.answer_lost"
BINDING_CLARIFIED: Final = "binding.clarified"

EVENT_DROPPED: Final = "event.dropped"
STATUS_FAILED: Final = "pod_status.failed"

NODE_CLOSED: Final = "node.closed"
OBJECT_MALFORMED: Final = "object.malformed"

WATCH_STARTED: Final = "watch.started"
WATCH_SYNCED: Final = "watch.synced"
WATCH_RESTARTED: Final = "watch.restarted"
WATCH_REFUSED: Final = "watch.refused"

CACHE_DRIFTED: Final = "cache.drifted"

LEASE_ACQUIRED: Final = "lease.acquired"
LEASE_AWAITED: Final = "lease.awaited"
LEASE_LOST: Final = "lease.lost"
LEASE_RELEASED: Final = "lease.released"

PLUGIN_FAILED: Final = "plugin.failed"
PLUGIN_STALLED: Final = "plugin.stalled"
PLUGIN_DISABLED: Final = "plugin.disabled"
PROFILE_STOPPED: Final = "profile.stopped"
EXTENDER_FAILED: Final = "extender.failed"

LOOP_STALLED: Final = "loop.stalled"
HEALTH_FAILED: Final = "health.failed"
CERTIFICATE_RENEWED: Final = "certificate.renewed"
CERTIFICATE_REFUSED: Final = "certificate.refused"
ENDPOINT_OPENED: Final = "endpoint.opened"
