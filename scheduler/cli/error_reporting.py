"""Prints errors for users."""

import traceback
from typing import Any, Final

import click

from scheduler.errors import ConfigurationError, SchedulerError

WITH_TRACEBACK: Final = "scheduler.cli.with_traceback"
"""The key in the context's ``meta`` that makes errors print a traceback as well."""

_HINT: Final = "hint: --log-level debug shows where it happened"


class ErrorReportingGroup(click.Group):
    """A group whose commands print one line for each problem instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except ConfigurationError as error:
            _print_errors(*error.problems)
            ctx.exit(2)
        except Exception as error:  # noqa: BLE001 - the outermost frame of ours
            _print_exception(error, in_full=ctx.meta.get(WITH_TRACEBACK, False))
            ctx.exit(1)


def _print_errors(*problems: str) -> None:
    for problem in problems:
        click.echo(f"error: {problem}", err=True)


def _print_exception(error: Exception, *, in_full: bool) -> None:
    if in_full:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    text = " ".join(str(error).split())
    if isinstance(error, SchedulerError):
        _print_errors(text)
    else:
        _print_errors(f"{type(error).__name__}: {text}" if text else type(error).__name__)
    if not in_full:
        click.echo(_HINT, err=True)
