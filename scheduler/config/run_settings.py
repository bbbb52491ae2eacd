"""What the command line asks for: the document's text and what flags lay over it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from scheduler.config.configuration import Draft, read


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How to run; the defaults are those of the command line.

    As upstream, a flag of the leader election wins over the document, while the rate limits are
    flags for those who have no document. Unlike upstream, ``--kubeconfig`` is used with a document
    too, unless the document names one.
    """

    config_path: str = ""
    """Where the document was found; for messages only. Default: none, everything is default."""

    config_text: str | None = None
    """The document itself. Default: none."""

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

    log_level: str = "info"
    """The least severity that is logged: debug, info, warning or error."""

    log_format: str = "auto"
    """json, console, or auto: console on a terminal outside a cluster, json everywhere else."""

    replace_default_scheduler: bool = False
    """Whether the names of the cluster's own scheduler may be used. Default: false."""

    pod_seconds_unschedulable_maximum: float = 300.0
    """After this long a pod is tried again even if nothing changed. Default: 5 minutes."""

    def draft(self) -> Draft:
        """Read the document and lay the flags over it.

        To be resolved with the plugins there are; problems are raised there, all at once.
        """
        draft = read(self.config_text)
        document = draft.document
        election = structs.replace(document.leader_election, **dict(self.leader_election))
        connection, ignored = self._connection(document.client_connection)
        return replace(
            draft,
            document=structs.replace(
                document, leader_election=election, client_connection=connection
            ),
            ignored=draft.ignored + ignored,
        )

    def _connection(self, connection: Any) -> tuple[Any, tuple[str, ...]]:
        given: dict[str, Any] = {
            "kubeconfig": self.kubeconfig or None,
            "qps": self.kube_api_qps or None,
            "burst": self.kube_api_burst or None,
        }
        given = {name: value for name, value in given.items() if value is not None}
        beaten = (
            {} if self.config_text is None else {n: _FLAGS[n] for n in given if n != "kubeconfig"}
        )
        if self.config_text is not None and connection.kubeconfig and self.kubeconfig:
            beaten["kubeconfig"] = _FLAGS["kubeconfig"]
        laid = {name: value for name, value in given.items() if name not in beaten}
        return structs.replace(connection, **laid), tuple(beaten.values())


_FLAGS = {
    "kubeconfig": "--kubeconfig (the document names one)",
    "qps": "--kube-api-qps (the document decides)",
    "burst": "--kube-api-burst (the document decides)",
}
