"""Help texts with options in groups; durations as options."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from scheduler.config import duration

F = TypeVar("F", bound=Callable[..., Any])


class GroupedOption(click.Option):
    """An option that ``--help`` lists under a heading."""

    def __init__(self, *args: Any, heading: str = "Other", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.heading = heading


class GroupedCommand(click.Command):
    """A command whose ``--help`` lists options by heading, in the order of their declaration."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "heading", "Other"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def options(heading: str, *declared: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds the options *declared* below, under *heading*."""

    def decorate(function: F) -> F:
        for declare in reversed(declared):
            function = declare(function)
            parameters: list[Any] = function.__click_params__  # type: ignore[attr-defined]
            parameters[-1].heading = heading
        return function

    return decorate


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """Declare an option that can be listed under a heading."""
    return click.option(*names, cls=GroupedOption, **settings)


def seconds(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Read a duration as Go writes it; a callback for options."""
    try:
        return None if given is None else duration.parse(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
