"""The document: ``KubeSchedulerConfiguration`` of ``kubescheduler.config.k8s.io/v1``, as written.

Each struct is one level of the document, each field one line of it, in upstream's words. Two
defaults differ on purpose: a single profile without a name is ``py-scheduler``, and so is the
lease, in the scheduler's own namespace. A second scheduler must never use the first one's name
by accident.

Source: ``kube-scheduler/config/v1/types.go`` and ``pkg/scheduler/apis/config/v1/defaults.go``.
"""

from typing import Any, Final

import msgspec
from msgspec import field

from scheduler.config.extension_point import Point
from scheduler.config.fields import Int32, Seconds

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
OWN_NAME: Final = "py-scheduler"
DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100
DEFAULT_LEASE_SECONDS: Final = 15.0
DEFAULT_RENEW_SECONDS: Final = 10.0
DEFAULT_RETRY_SECONDS: Final = 2.0
DEFAULT_EXTENDER_SECONDS: Final = 5.0


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the document."""


class LeaderElection(Part, frozen=True):
    """Which of several replicas schedules."""

    leader_elect: bool = True
    """Whether a lease is held while scheduling. Default: true, so that a second replica is safe
    from the start."""

    lease_duration_seconds: Seconds = field(default=DEFAULT_LEASE_SECONDS, name="leaseDuration")
    """How long a standby waits after the last renewal before it takes over. Default: 15s (also
    for 0s), as everywhere in Kubernetes."""

    renew_deadline_seconds: Seconds = field(default=DEFAULT_RENEW_SECONDS, name="renewDeadline")
    """How long the leader tries to renew before it gives up and exits; below leaseDuration.
    Default: 10s (also for 0s)."""

    retry_period_seconds: Seconds = field(default=DEFAULT_RETRY_SECONDS, name="retryPeriod")
    """The pause between two attempts to get or renew the lease. Default: 2s (also for
    0s)."""

    resource_lock: str = "leases"
    """The kind of the lock. Only ``leases`` exists any more; kept because documents name it."""

    resource_namespace: str = ""
    """Where the lease lives. Default: the namespace the scheduler runs in, ``kube-system`` where
    that is unknown."""

    resource_name: str = OWN_NAME
    """The name of the lease. Default: ``py-scheduler``; never ``kube-scheduler``, which another
    scheduler holds."""


class ClientConnection(Part, frozen=True):
    """How the API server is reached."""

    kubeconfig: str = ""
    """The path of a kubeconfig file. Default: none, which means the pod's own service account, or
    else the usual places."""

    accept_content_types: str = ""
    """No meaning here: requests ask for JSON."""

    content_type: str = "application/vnd.kubernetes.protobuf"
    """No meaning here: requests carry JSON."""

    qps: float = DEFAULT_QPS
    """Requests a second, on average; below zero: unlimited. Default: 50 (also for 0), as
    upstream."""

    burst: Int32 = DEFAULT_BURST
    """Requests that may go at once. Default: 100 (also for 0), as upstream."""


class PluginEntry(Part, frozen=True):
    """A plugin in a list."""

    name: str = ""
    """The plugin's name, or ``module:Class`` for one of your own; ``*`` in a list of disabled ones
    means all."""

    weight: Int32 = 0
    """How much its scores count. Default: 1 (also for 0); has a meaning where it scores only."""


class PluginSet(Part, frozen=True):
    """What is switched on and off at one extension point."""

    enabled: tuple[PluginEntry, ...] = ()
    """Plugins to add to the default ones, in order; one with a default's name takes that one's
    place."""

    disabled: tuple[PluginEntry, ...] = ()
    """Default plugins to leave out. Default: none."""


class Plugins(Part, frozen=True):
    """What is switched on and off, by extension point."""

    pre_enqueue: PluginSet = PluginSet()
    """May this pod enter the queue?"""

    queue_sort: PluginSet = PluginSet()
    """Which pod first? Exactly one plugin, the same in all profiles, since they share the queue."""

    pre_filter: PluginSet = PluginSet()
    """Which nodes are judged at all."""

    filter: PluginSet = PluginSet()
    """Which nodes cannot take the pod."""

    post_filter: PluginSet = PluginSet()
    """Which preemption would help, if no node can take the pod."""

    pre_score: PluginSet = PluginSet()
    """Kept for upstream's documents; a plugin here prepares its scores while scoring."""

    score: PluginSet = PluginSet()
    """Which nodes are better; weights count here only."""

    reserve: PluginSet = PluginSet()
    """What the pod needs on the chosen node."""

    permit: PluginSet = PluginSet()
    """Now, later or not at all?"""

    pre_bind: PluginSet = PluginSet()
    """What must be done before the pod is bound."""

    bind: PluginSet = PluginSet()
    """Which plugins bind; at least one."""

    post_bind: PluginSet = PluginSet()
    """What runs after the pod was bound."""

    multi_point: PluginSet = PluginSet()
    """Plugins for every extension point they serve; here, and only here, stand the default ones."""

    placement_generate: PluginSet = PluginSet()
    """Which placements a group of pods could have (alpha upstream)."""

    placement_score: PluginSet = PluginSet()
    """Which placements are better (alpha upstream)."""

    def at(self, point: Point) -> PluginSet:
        """Return the plugins that are listed for *point* itself."""
        plugins: PluginSet = getattr(self, point.value)
        return plugins


class PluginConfig(Part, frozen=True):
    """The arguments of one plugin."""

    name: str = ""
    """The plugin's name, as in the lists."""

    args: dict[str, Any] = {}
    """Its arguments; for a plugin of ours see scheduler.config.plugin_args, any other gets them as
    they are."""


class KubeSchedulerProfile(Part, frozen=True):
    """One way to schedule; pods choose it by ``spec.schedulerName``."""

    scheduler_name: str = ""
    """The name that pods choose. Default: ``py-scheduler`` if there is one profile, otherwise it
    must be given."""

    percentage_of_nodes_to_score: Int32 | None = None
    """As the field of the document, for this profile alone. Default: that field."""

    plugins: Plugins = Plugins()
    """What differs from the default plugins. Default: nothing."""

    plugin_config: tuple[PluginConfig, ...] = ()
    """Arguments of plugins. Default: each plugin's own."""


class TlsConfig(Part, frozen=True):
    """How an extender is authenticated; data overrides files."""

    insecure: bool = False
    """Whether the extender's certificate is not verified; for trials only, and not together with an
    authority. Default: false."""

    server_name: str = ""
    """The name expected in the certificate. Default: the host of the URL."""

    cert_file: str = ""
    """The path of the client certificate, PEM. Default: none."""

    key_file: str = ""
    """The path of the client's key, PEM. Default: none."""

    ca_file: str = ""
    """The path of the authorities to trust, PEM. Default: the system's; with enableHTTPS, no
    certificate is verified, as upstream."""

    cert_data: bytes = b""
    """The client certificate itself, base64. Default: none."""

    key_data: bytes = b""
    """The client's key itself, base64; never shown again. Default: none."""

    ca_data: bytes = b""
    """The authorities themselves, base64. Default: none."""


class ManagedResource(Part, frozen=True):
    """A resource that an extender manages."""

    name: str = ""
    """The extended resource, as in ``example.com/gpu``."""

    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit ignores it. Default: false."""


class Extender(Part, frozen=True):
    """A web service that filters, scores, preempts or binds in addition to the plugins."""

    url_prefix: str = ""
    """Its URL; a verb is appended after a slash."""

    filter_verb: str = ""
    """The verb that filters nodes. Default: none, it does not filter."""

    preempt_verb: str = ""
    """The verb that accepts or rejects candidates for preemption. Default: none."""

    prioritize_verb: str = ""
    """The verb that scores nodes. Default: none."""

    weight: int = 0
    """How much its scores count; positive where it scores."""

    bind_verb: str = ""
    """The verb that binds a pod instead of the scheduler; one extender at most. Default: none."""

    enable_https: bool = field(default=False, name="enableHTTPS")
    """Whether it is reached by HTTPS; its certificate is verified only if tlsConfig names an
    authority. Default: false."""

    tls_config: TlsConfig | None = None
    """How it is authenticated. Default: the system's authorities, but see enableHTTPS; no client
    certificate."""

    http_timeout_seconds: Seconds = field(default=DEFAULT_EXTENDER_SECONDS, name="httpTimeout")
    """How long one answer may take; failing to score is ignored, failing to filter is not. Default:
    5s (also for 0s)."""

    node_cache_capable: bool = False
    """Whether it knows the nodes, so that names are enough. Default: false, whole nodes are
    sent."""

    managed_resources: tuple[ManagedResource, ...] = ()
    """It is called only for pods that request one of these. Default: none, which means every
    pod."""

    ignorable: bool = False
    """Whether scheduling goes on while it fails. Default: false."""


class KubeSchedulerConfiguration(Part, frozen=True):
    """The whole document."""

    api_version: str = API_VERSION
    """``kubescheduler.config.k8s.io/v1``; there is no other."""

    kind: str = KIND
    """``KubeSchedulerConfiguration``."""

    parallelism: Int32 = 16
    """No meaning here: all nodes are judged in one pass. Default: 16, as upstream."""

    leader_election: LeaderElection = LeaderElection()
    """Which of several replicas acts."""

    client_connection: ClientConnection = ClientConnection()
    """How the API server is reached."""

    enable_profiling: bool = True
    """No meaning here: there is no Go profiler to serve. Default: true, as upstream."""

    enable_contention_profiling: bool = True
    """No meaning here: there are no locks to profile. Default: true, as upstream."""

    percentage_of_nodes_to_score: Int32 | None = None
    """The share of the nodes, in percent, that is scored; all are filtered. Default: every feasible
    node (also for 0); upstream scores a sample."""

    pod_initial_backoff_seconds: int = 1
    """How long a pod waits after its first failed attempt; doubles with each. Default: 1, as
    upstream."""

    pod_max_backoff_seconds: int = 10
    """The longest a pod waits. Default: 10, as upstream."""

    profiles: tuple[KubeSchedulerProfile, ...] = (KubeSchedulerProfile(),)
    """The ways to schedule. Default: one, with the default plugins."""

    extenders: tuple[Extender, ...] = ()
    """Web services that are called in addition to the plugins. Default: none."""

    delay_cache_until_active: bool = False
    """Whether a standby reads the cluster only once it leads: saves memory, costs seconds. Default:
    false."""


WITHOUT_MEANING: Final = (
    "parallelism",
    "enableProfiling",
    "enableContentionProfiling",
    "clientConnection.acceptContentTypes",
    "clientConnection.contentType",
)
"""Fields that upstream's documents may hold and that change nothing here."""
