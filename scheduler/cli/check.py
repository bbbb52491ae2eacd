"""``py-scheduler check``: checks the API server and the permissions that a run needs."""

from typing import Any

import click

from scheduler.cli.error_reporting import WITH_TRACEBACK
from scheduler.cli.help import GroupedCommand, option, options
from scheduler.cli.texts import read_text
from scheduler.config.run_settings import RunSettings

_CHECKED = options(
    "What is checked",
    option(
        "--config",
        metavar="FILE",
        help="The KubeSchedulerConfiguration it will run with; - reads standard input."
        "  [default: none, built-in defaults]",
    ),
    option(
        "--config-resource",
        metavar="NAME",
        default="",
        help="The SchedulerConfiguration object that it will follow; its plugins are checked when"
        " it is applied.",
    ),
    option(
        "--rules",
        is_flag=True,
        help="Print the rules of the ClusterRole that this configuration needs, and check nothing.",
    ),
    option(
        "--replace-default-scheduler",
        is_flag=True,
        help="It will run with this flag, which allows default-scheduler and kube-scheduler.",
    ),
    option(
        "--insecure-metrics",
        is_flag=True,
        help="It will serve metrics over plain HTTP, which needs no permission for access reviews.",
    ),
)

_CONNECTION = options(
    "API server",
    option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="Credentials, unless the document names a file.  [default: as for run]",
    ),
    option("--context", metavar="NAME", default="", help="The context of the kubeconfig."),
    option("--master", metavar="URL", default="", help="The server, instead of the kubeconfig's."),
)

_OUTPUT = options(
    "Output", option("--debug", is_flag=True, help="Print the traceback of an error.")
)


@click.command(cls=GroupedCommand)
@_CHECKED
@_CONNECTION
@_OUTPUT
@click.pass_context
def check(ctx: click.Context, /, **flags: Any) -> None:
    """Check connection, API versions and permissions, and change nothing.

    It checks the permissions of its own credentials: run it with those of the scheduler. Exit
    codes: 0 when nothing is missing, 1 when something is, 2 for mistakes in flags, document or
    credentials.
    """
    ctx.meta[WITH_TRACEBACK] = flags["debug"]
    path = flags["config"]
    settings = RunSettings(
        config_path=path or "",
        config_text=None if path is None else read_text("--config", path),
        config_resource=flags["config_resource"],
        kubeconfig=flags["kubeconfig"],
        context=flags["context"],
        master=flags["master"],
        insecure_metrics=flags["insecure_metrics"],
        replace_default_scheduler=flags["replace_default_scheduler"],
    )
    # Late, so that --help and mistakes in flags answer at once.
    from scheduler import checkup

    if flags["rules"]:
        import yaml

        rules = [each.rule for each in checkup.rules(settings)]
        click.echo(yaml.safe_dump(rules, sort_keys=False), nl=False)
        return
    found = checkup.check(settings)
    click.echo(checkup.table(found), nl=False)
    ctx.exit(0 if checkup.passed(found) else 1)
