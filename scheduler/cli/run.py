"""``py-scheduler run``: schedules until a signal ends it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from scheduler.cli.error_reporting import WITH_TRACEBACK
from scheduler.cli.help import GroupedCommand, option, options, seconds
from scheduler.cli.texts import read_text
from scheduler.config.run_settings import RunSettings

_CONFIGURATION = options(
    "Configuration",
    option(
        "--config",
        metavar="FILE",
        help="A KubeSchedulerConfiguration document, YAML or JSON; - reads standard input."
        "  [default: none, built-in defaults]",
    ),
    option(
        "--config-resource",
        metavar="NAME",
        default="",
        help="The SchedulerConfiguration object with profiles, backoffs and extenders, which may"
        " change at any time; --config then has only what needs a restart.",
    ),
    option(
        "--pod-max-in-unschedulable-pods-duration",
        metavar="DURATION",
        callback=seconds,
        default="5m",
        show_default=True,
        help="Try an unschedulable pod again after this long without an event.",
    ),
    option(
        "--foreign-nomination-duration",
        metavar="DURATION",
        callback=seconds,
        default="10m",
        show_default=True,
        help="Keep capacity free this long for nominated pods of other schedulers; 0: never.",
    ),
    option(
        "--pod-max-entries",
        metavar="NUMBER",
        type=click.IntRange(min=0),
        default=5000,
        show_default=True,
        help="Park pods whose spec has more affinity terms, tolerations, containers and the like"
        " than this; 0: never.",
    ),
    option(
        "--plugin-timeout",
        metavar="DURATION",
        callback=seconds,
        default="1s",
        show_default=True,
        help="Interrupt an out-of-tree plugin that does not return for this long; 0: never.",
    ),
    option(
        "--drift-check-period",
        metavar="DURATION",
        callback=seconds,
        default="5m",
        show_default=True,
        help="Compare the cache with a fresh list this often, as on SIGUSR2; 0: never.",
    ),
    option(
        "--replace-default-scheduler",
        is_flag=True,
        help="Allow the names default-scheduler and kube-scheduler. Use it only where the cluster's"
        " own scheduler is switched off: two with one name both bind its pods.",
    ),
)

_CONNECTION = options(
    "API server",
    option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="Credentials, unless the document names a file."
        "  [default: the pod's service account, else $KUBECONFIG, else ~/.kube/config]",
    ),
    option(
        "--context",
        metavar="NAME",
        default="",
        help="The context of the kubeconfig.  [default: its own]",
    ),
    option("--master", metavar="URL", default="", help="The server, instead of the kubeconfig's."),
    option(
        "--kube-api-qps",
        metavar="NUMBER",
        type=float,
        help="Requests a second; below 0: unlimited. Ignored with --config.  [default: 50]",
    ),
    option(
        "--kube-api-burst",
        metavar="NUMBER",
        type=int,
        help="Requests allowed at once. Ignored with --config.  [default: 100]",
    ),
)

_LEADER_ELECTION = options(
    "Leader election (each flag overrides the document)",
    # Not one switch with two names: manifests for kube-scheduler say --leader-elect=false.
    option(
        "--leader-elect",
        type=bool,
        is_flag=False,
        flag_value="true",
        metavar="[true|false]",
        help="Hold a lease while scheduling.  [default: true]",
    ),
    option("--no-leader-elect", is_flag=True, help="The same as --leader-elect=false."),
    option(
        "--leader-elect-lease-duration",
        metavar="DURATION",
        callback=seconds,
        help="How long a standby waits after the last renewal.  [default: 15s]",
    ),
    option(
        "--leader-elect-renew-deadline",
        metavar="DURATION",
        callback=seconds,
        help="How long the leader tries to renew before it gives up.  [default: 10s]",
    ),
    option(
        "--leader-elect-retry-period",
        metavar="DURATION",
        callback=seconds,
        help="The pause between two attempts.  [default: 2s]",
    ),
    option(
        "--leader-elect-resource-lock",
        metavar="KIND",
        help="The kind of the lock.  [default: leases]",
    ),
    option(
        "--leader-elect-resource-name",
        metavar="NAME",
        help="The lease's name.  [default: py-scheduler]",
    ),
    option(
        "--leader-elect-resource-namespace",
        metavar="NAMESPACE",
        help="The lease's namespace.  [default: the scheduler's own, else kube-system]",
    ),
)

_SERVING = options(
    "Health, metrics and configuration",
    option(
        "--bind-address",
        metavar="ADDRESS",
        default="0.0.0.0",  # noqa: S104 - probes and scrapes come from outside the pod
        show_default=True,
        help="Where to listen.",
    ),
    option(
        "--port",
        "--secure-port",
        metavar="PORT",
        type=click.IntRange(0, 65535),
        default=10259,
        show_default=True,
        help="The port; 0 serves nothing.",
    ),
    option(
        "--tls-cert-file",
        metavar="FILE",
        default="",
        help="The certificate to serve with, read again when it is rotated."
        "  [default: self-signed, made at the start]",
    ),
    option("--tls-private-key-file", metavar="FILE", default="", help="Its private key."),
    option(
        "--insecure-metrics",
        is_flag=True,
        help="Serve plain HTTP to all clients, not HTTPS to those that the API server allows.",
    ),
)

_LOGS = options(
    "Logs",
    option(
        "--check-decisions",
        is_flag=True,
        help="Decide every pod a second time, without kept answers of plugins; report differences.",
    ),
    option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="The least severity that is logged.",
    ),
    option(
        "--log-format",
        type=click.Choice(["auto", "json", "console"]),
        default="auto",
        show_default=True,
        help="auto: console on a terminal, json elsewhere and in a cluster.",
    ),
)


@click.command(cls=GroupedCommand)
@_CONFIGURATION
@_CONNECTION
@_LEADER_ELECTION
@_SERVING
@_LOGS
@click.pass_context
def run(ctx: click.Context, /, **flags: Any) -> None:
    """Schedule pods until a signal ends it.

    Without any option: the kubeconfig or service account at hand, kube-scheduler's default
    plugins, and pods that say "schedulerName: py-scheduler".
    """
    ctx.meta[WITH_TRACEBACK] = flags["log_level"] == "debug"
    settings = settings_from(flags)
    with _ending_at_once():
        # Late, so that --help and mistakes in flags answer at once.
        from scheduler import app

        ctx.exit(app.run(settings))


@contextlib.contextmanager
def _ending_at_once() -> Iterator[None]:
    """End the process at once on a signal, until the application handles signals itself.

    The first process of a container ignores a signal for which it has no handler, and reading the
    credentials may take long: an exec plugin may provide them.
    """
    before = {
        number: signal.signal(number, _end_at_once) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(*_: object) -> NoReturn:
    os._exit(0)


def settings_from(flags: dict[str, Any]) -> RunSettings:
    """Return the settings of *flags*, by their Python names; reads the document."""
    path = flags["config"]
    return RunSettings(
        config_path=path or "",
        config_text=None if path is None else read_text("--config", path),
        leader_election=_leader_election(flags),
        pod_seconds_unschedulable_maximum=flags["pod_max_in_unschedulable_pods_duration"],
        foreign_nomination_seconds=flags["foreign_nomination_duration"],
        pod_entries_maximum=flags["pod_max_entries"],
        plugin_seconds_maximum=flags["plugin_timeout"],
        drift_seconds=flags["drift_check_period"],
        **{name: flags[name] for name in _SAME_NAME},
    )


_SAME_NAME = (
    "config_resource",
    "kubeconfig",
    "context",
    "master",
    "kube_api_qps",
    "kube_api_burst",
    "bind_address",
    "port",
    "tls_cert_file",
    "tls_private_key_file",
    "insecure_metrics",
    "check_decisions",
    "log_level",
    "log_format",
    "replace_default_scheduler",
)

_LEADER_ELECTION_FIELDS = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration_seconds",
    "leader_elect_renew_deadline": "renew_deadline_seconds",
    "leader_elect_retry_period": "retry_period_seconds",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}


def _leader_election(flags: dict[str, Any]) -> dict[str, object]:
    if flags["no_leader_elect"]:
        flags = flags | {"leader_elect": False}
    return {
        field: flags[flag]
        for flag, field in _LEADER_ELECTION_FIELDS.items()
        if flags[flag] is not None
    }
