"""The settings of the command line: the document's text, and flags that override it."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from scheduler.config.configuration import Draft, read
from scheduler.config.document import ClientConnection
from scheduler.errors import ConfigurationError

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
STANDARD_INPUT: Final = "-"
"""The path that means standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How to run; the defaults are those of the command line.

    As upstream, a flag of the leader election overrides the document, while the flags for rate
    limits have an effect only without a document. Unlike upstream, ``--kubeconfig`` is used with a
    document too, unless the document names one.
    """

    config_path: str = ""
    """Where the document was found; for messages only. Default: none, everything is default."""

    config_text: str | None = None
    """The document itself. Default: none."""

    config_resource: str = ""
    """The SchedulerConfiguration object with profiles, backoffs and extenders. Default: none, the
    document has them."""

    kubeconfig: str = ""
    """The path of a kubeconfig file. Default: in a cluster its own account, else the usual
    places."""

    context: str = ""
    """The context of the kubeconfig. Default: its current one."""

    master: str = ""
    """The URL of the API server instead of the one in the kubeconfig. Default: none."""

    kube_api_qps: float | None = None
    """Requests a second, on average; only without a document. Default: 50."""

    kube_api_burst: int | None = None
    """Requests that may go at once; only without a document. Default: 100."""

    leader_election: Mapping[str, object] = field(default_factory=dict)
    """Fields of LeaderElection that were given as flags, by name. Default: none."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the pod
    """Where health, metrics and configuration are served. Default: everywhere, as upstream."""

    port: int = 10259
    """The port of that; 0 serves nothing. Default: 10259, as upstream."""

    tls_cert_file: str = ""
    """The path of the certificate to serve with. Default: none, one is made at the start."""

    tls_private_key_file: str = ""
    """The path of its private key. Default: none."""

    insecure_metrics: bool = False
    """Whether health and metrics are served over plain HTTP, to all clients. Default: false."""

    drift_seconds: float = 300.0
    """How often the cache is compared with a fresh list; 0 for never. Default: 5 minutes."""

    log_level: str = "info"
    """The least severity that is logged: debug, info, warning or error."""

    log_format: str = "auto"
    """json, console, or auto: console on a terminal outside a cluster, json everywhere else."""

    replace_default_scheduler: bool = False
    """Whether the names of the cluster's own scheduler may be used. Default: false."""

    pod_seconds_unschedulable_maximum: float = 300.0
    """After this long a pod is tried again even if nothing changed. Default: 5 minutes."""

    foreign_nomination_seconds: float = 600.0
    """How long a nomination of another scheduler's pod counts; 0 for never. Default: 10 minutes."""

    pod_entries_maximum: int = 5000
    """How much one pod may ask, in entries of its spec; 0 for any. Default: 5,000."""

    plugin_seconds_maximum: float = 1.0
    """How long one call of an out-of-tree plugin may take; 0 for ever. Default: 1 second."""

    check_decisions: bool = False
    """Whether every pod is decided twice, to find wrong kept answers. Default: false."""

    def __post_init__(self) -> None:
        """Reject flags that contradict each other."""
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ConfigurationError("--tls-cert-file and --tls-private-key-file go together")
        if self.config_resource and not _NAME.fullmatch(self.config_resource):
            raise ConfigurationError(
                f"--config-resource: {self.config_resource!r} is no name of an object; it lives in "
                f"no namespace, and is written in lower case, as in main"
            )
        if self.tls_cert_file and self.insecure_metrics:
            raise ConfigurationError("--insecure-metrics serves no certificate: drop one of them")

    def draft(self) -> Draft:
        """Read the document and apply the flags to it.

        ``Draft.resolve`` raises the problems, all at once.
        """
        draft = read(self.config_text)
        document = draft.document
        election = replace(document.leader_election, **dict(self.leader_election))
        connection, ignored = self._connection(document.client_connection)
        return dataclasses.replace(
            draft,
            document=replace(document, leader_election=election, client_connection=connection),
            ignored=draft.ignored + ignored,
        )

    def _connection(self, connection: ClientConnection) -> tuple[ClientConnection, tuple[str, ...]]:
        """Return *connection* with the flags applied, and the flags that the document overrides."""
        alone = self.config_text is None
        flags = (
            ("--kubeconfig", "kubeconfig", self.kubeconfig, alone or not connection.kubeconfig),
            ("--kube-api-qps", "qps", self.kube_api_qps, alone),
            ("--kube-api-burst", "burst", self.kube_api_burst, alone),
        )
        given = [flag for flag in flags if flag[2]]
        applied = {field: value for _, field, value, counts in given if counts}
        overridden = (f"{flag} (the document decides)" for flag, *_, counts in given if not counts)
        return replace(connection, **applied), tuple(overridden)
