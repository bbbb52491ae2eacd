"""Bar charts as SVG, without a dependency."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hack import svg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLOURS: Final = ("#299c46", "#3274d9", "#b0b0b0", "#e0752d")
_WIDTH: Final = 880
_LEFT, _RIGHT = 270, 80
_HEAD, _FOOT = 62, 26
_BAR, _GAP = 11, 9
_GRID_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a value, and the range of its measurements.

    Args:
        lowest: None where there is no range to show.
    """

    value: float
    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Groups of bars, one below the other.

    Args:
        unit: What the axis counts.
        series: The names of the bars of each group, in order.
        groups: A label and its bars; None leaves a bar out.
    """

    title: str
    unit: str
    series: Sequence[str]
    groups: Sequence[tuple[str, Sequence[Bar | None]]]


def draw(chart: Chart) -> str:
    """Return the chart as an SVG document.

    Raises:
        ValueError: A group has another number of bars than there are series.
    """
    for label, bars in chart.groups:
        if len(bars) != len(chart.series):
            raise ValueError(f"{label!r} has {len(bars)} bars for {len(chart.series)} series")
    step = len(chart.series) * _BAR + _GAP
    height = _HEAD + step * len(chart.groups) + _FOOT
    top = ceiling(max((bar.highest or bar.value for bar in _bars(chart)), default=1.0))
    body = "\n".join((*_head(chart), *_grid(chart.unit, top, height), *_groups(chart, top, step)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def ceiling(value: float) -> float:
    """Return a round number that is not smaller, for the end of an axis."""
    if value <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(value))
    return next(
        step * magnitude
        for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
        if step * magnitude >= value
    )


def _bars(chart: Chart) -> Iterator[Bar]:
    return (bar for _, bars in chart.groups for bar in bars if bar is not None)


def _x(value: float, top: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / top


def _head(chart: Chart) -> Iterator[str]:
    yield svg.text(14, 22, chart.title, size=15, bold=True)
    at = float(_LEFT)
    for name, colour in zip(chart.series, COLOURS, strict=False):
        yield f'<rect x="{at:.0f}" y="34" width="10" height="10" fill="{colour}"/>'
        yield svg.text(at + 14, 43, name)
        at += 34 + 6.4 * len(name)


def _grid(unit: str, top: float, height: int) -> Iterator[str]:
    for part in range(_GRID_LINES + 1):
        value = top * part / _GRID_LINES
        x = _x(value, top)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 8}" y2="{height - _FOOT}" '
            'stroke="#e3e3e3"/>'
        )
        last = f" {unit}" if part == _GRID_LINES else ""
        yield svg.text(x, height - 9, f"{value:,.6g}{last}", anchor="middle", colour="#666")


def _groups(chart: Chart, top: float, step: int) -> Iterator[str]:
    for number, (label, bars) in enumerate(chart.groups):
        y = _HEAD + number * step
        yield svg.text(_LEFT - 8, y + step / 2, label, anchor="end")
        for row, bar in enumerate(bars):
            if bar is not None:
                yield from _bar(bar, y + row * _BAR, top, COLOURS[row % len(COLOURS)])


def _bar(bar: Bar, y: float, top: float, colour: str) -> Iterator[str]:
    width = max(0.0, _x(bar.value, top) - _LEFT)
    yield (f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>')
    end = _x(bar.value, top)
    if bar.lowest is not None and bar.highest is not None and bar.highest > bar.lowest:
        low, end = _x(bar.lowest, top), max(end, _x(bar.highest, top))
        middle = y + (_BAR - 2) / 2
        yield (
            f'<line x1="{low:.1f}" x2="{_x(bar.highest, top):.1f}" y1="{middle}" y2="{middle}" '
            'stroke="#222"/>'
        )
    yield svg.text(end + 4, y + _BAR - 3, f"{bar.value:,.4g}", size=9, colour="#444")
