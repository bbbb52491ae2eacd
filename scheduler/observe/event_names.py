"""The name of every log event: a noun and a past participle; what else is known goes into fields.

Alerts and operators' searches depend on these names: they stay as they are. A line in a log leads
here, and the constant leads to the code that writes it.
"""

from typing import Final

SCHEDULER_STARTED: Final = "scheduler.started"
SCHEDULER_STOPPED: Final = "scheduler.stopped"

CONFIGURATION_LOADED: Final = "configuration.loaded"
CONFIGURATION_APPLIED: Final = "configuration.applied"
CONFIGURATION_REFUSED: Final = "configuration.refused"
CONFIGURATION_UNREADABLE: Final = "configuration.unreadable"
CONFIGURATION_UNFOLLOWED: Final = "configuration.unfollowed"
CONFIGURATION_DELETED: Final = "configuration.deleted"
CONFIGURATION_STATUS_FAILED: Final = "configuration_status.failed"
CONFIGURATION_WATCH_FAILED: Final = "configuration_watch.failed"
CONFIGURATION_IGNORED: Final = "configuration.ignored"
DEFAULT_PLUGINS_MISSED: Final = "default_plugins.missed"

POD_BOUND: Final = "pod.bound"
POD_PARKED: Final = "pod.parked"
POD_RETRIED: Final = "pod.retried"
POD_NOMINATED: Final = "pod.nominated"
POD_PREEMPTED: Final = "pod.preempted"
PREEMPTION_FAILED: Final = "preemption.failed"
PREEMPTION_UNDONE: Final = "preemption.undone"
POD_REFUSED: Final = "pod.refused"
NODE_DISTRUSTED: Final = "node.distrusted"
DECISION_DIFFERED: Final = "decision.differed"

BINDING_THROTTLED: Final = "binding.throttled"
BINDING_FAILED: Final = "binding.failed"
BINDING_ANSWER_LOST: Final = "binding.answer_lost"

STATUS_FAILED: Final = "pod_status.failed"

OBJECT_MALFORMED: Final = "object.malformed"

WATCH_STARTED: Final = "watch.started"
WATCH_SYNCED: Final = "watch.synced"
WATCH_RESTARTED: Final = "watch.restarted"
WATCH_REFUSED: Final = "watch.refused"

CACHE_DRIFTED: Final = "cache.drifted"

LEASE_ACQUIRED: Final = "lease.acquired"
LEASE_AWAITED: Final = "lease.awaited"
LEASE_UNWATCHED: Final = "lease.unwatched"
LEASE_LOST: Final = "lease.lost"
LEASE_RELEASED: Final = "lease.released"

PLUGIN_FAILED: Final = "plugin.failed"
PLUGIN_STALLED: Final = "plugin.stalled"
PLUGIN_DISABLED: Final = "plugin.disabled"
PROFILE_STOPPED: Final = "profile.stopped"

LOOP_STALLED: Final = "loop.stalled"
HEALTH_FAILED: Final = "health.failed"
CERTIFICATE_RENEWED: Final = "certificate.renewed"
CERTIFICATE_REFUSED: Final = "certificate.refused"
ENDPOINT_OPENED: Final = "endpoint.opened"
