"""``py-scheduler explain``: explains what would be decided about a pod."""

import sys
from typing import Any, Final

import click

from scheduler.cli.error_reporting import WITH_TRACEBACK
from scheduler.cli.help import GroupedCommand, option, options
from scheduler.cli.texts import read_text

STDIN: Final = "-"

_POD = options(
    "The pod",
    option(
        "-n",
        "--namespace",
        metavar="NAME",
        default="",
        help="The pod's namespace.  [default: the manifest's own, else default]",
    ),
    option(
        "-f",
        "--filename",
        metavar="FILE",
        help="The manifest of a pod that does not exist yet, YAML or JSON. The API server completes"
        " it by a dry run; on a snapshot, the rules in docs/explain.md do.",
    ),
)

_CLUSTER = options(
    "The cluster",
    option(
        "-s",
        "--snapshot",
        metavar="FILE",
        multiple=True,
        help="What `kubectl get nodes,pods,... -A -o json` printed, JSON or YAML; may be given"
        " several times, - reads standard input.  [default: ask the API server]",
    ),
    option(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="Credentials.  [default: the document's, else as for run]",
    ),
    option("--context", metavar="NAME", default="", help="The context of the kubeconfig."),
)

_SCHEDULER = options(
    "The scheduler",
    option(
        "--config",
        metavar="FILE",
        help="The KubeSchedulerConfiguration it runs with.  [default: none, built-in defaults]",
    ),
    option(
        "--profile",
        metavar="NAME",
        default="",
        help="The profile, by its scheduler name.  [default: the one that the pod names]",
    ),
)

_OUTPUT = options(
    "Output",
    option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="The fields of json and yaml are promised: docs/explain.md.",
    ),
    option(
        "--limit",
        metavar="NUMBER",
        type=click.IntRange(0),
        default=0,
        help="Show at most this many feasible and rejected nodes each; 0: all.  [default: 0]",
    ),
    option("--debug", is_flag=True, help="Print the traceback of an error."),
)


@click.command(cls=GroupedCommand)
@click.argument("name", required=False, default="")
@_POD
@_CLUSTER
@_SCHEDULER
@_OUTPUT
@click.pass_context
def explain(ctx: click.Context, /, name: str, **flags: Any) -> None:
    """Tell on which node the pod NAME would be bound and why, without binding it.

    \b
    py-scheduler explain -n shop web-1
    kubectl get nodes,pods -A -o json | py-scheduler explain -s - -n shop web-1
    py-scheduler explain -f pod.yaml -s dump.json -o json
    """  # noqa: D301 - click reads \b as "leave these lines alone"
    ctx.meta[WITH_TRACEBACK] = flags["debug"]
    name = name.removeprefix("pods/").removeprefix("pod/")  # as kubectl writes it
    _check(name, flags)
    # Late, so that --help and mistakes in flags answer at once.
    from scheduler.explain.request import ExplainRequest, explain_pod
    from scheduler.explain.table import table

    document = explain_pod(
        ExplainRequest(
            name=name,
            namespace=flags["namespace"],
            manifest=_text("--filename", flags["filename"]),
            snapshots=tuple(
                (_display_name(path), read_text("--snapshot", path)) for path in flags["snapshot"]
            ),
            config=None if flags["config"] is None else read_text("--config", flags["config"]),
            profile=flags["profile"],
            kubeconfig=flags["kubeconfig"],
            context=flags["context"],
        )
    )
    click.echo(
        table(document, flags["limit"])
        if flags["output"] == "table"
        else _encode(document, flags["output"]),
        nl=False,
    )


def _check(name: str, flags: dict[str, Any]) -> None:
    """Reject arguments that contradict each other."""
    if bool(name) == (flags["filename"] is not None):
        raise click.UsageError("give either the NAME of a pod or a manifest with -f")
    if "/" in name:
        namespace, _, bare = name.partition("/")
        raise click.UsageError(f"a name has no slash: write -n {namespace} {bare}")
    inputs = [flags["filename"], flags["config"], *flags["snapshot"]]
    if inputs.count(STDIN) > 1:
        raise click.UsageError("only one file can be read from standard input")
    if flags["snapshot"] and (flags["kubeconfig"] or flags["context"]):
        raise click.UsageError(
            "with --snapshot no API server is used: leave out --kubeconfig and --context"
        )
    if not sys.stdin.isatty():
        return
    if STDIN in inputs:
        click.echo("reading standard input until it ends (Ctrl-D)", err=True)


def _text(flag: str, path: str | None) -> tuple[str, str] | None:
    return None if path is None else (_display_name(path), read_text(flag, path))


def _display_name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _encode(document: dict[str, Any], output: str) -> str:
    import msgspec

    encoded = msgspec.json.encode(document)
    if output == "json":
        return msgspec.json.format(encoded, indent=2).decode() + "\n"
    import yaml

    written: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    return written
