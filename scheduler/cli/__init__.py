"""The command line: ``py-scheduler``, one module for each command.

Commands turn flags and files into values and call app, explain or checkup. Each problem is one line
on standard error, never a traceback: exit code 2 for what the operator can correct, 1 for
everything else.

This room imports app, checkup, config, errors and explain. It is imported by __main__.
"""

import click

from scheduler.cli.check import check
from scheduler.cli.error_reporting import ErrorReportingGroup
from scheduler.cli.explain import explain
from scheduler.cli.run import run
from scheduler.version import __version__


@click.group(
    cls=ErrorReportingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="py-scheduler", message="%(prog)s %(version)s")
def main() -> None:
    """Schedule pods onto nodes, beside the scheduler the cluster has.

    Pods that say "schedulerName: py-scheduler" are filtered, scored and bound by this one.
    """


main.add_command(run)
main.add_command(explain)
main.add_command(check)
