"""Draws the dashboard's panels from a live run, without Grafana: what an operator would see.

``python -m hack.panels docs/images/dashboard.svg`` runs two replicas under load for four minutes on
a local control plane, with a real Prometheus beside them: pods that fit nowhere come at a third of
the time, the leader is killed at two thirds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hack import svg
from hack.failovers import Arena, Times
from hack.prometheus import Prometheus, Target, scraping_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

DASHBOARD: Final = Path(__file__).parents[1] / "charts/py-scheduler/files/dashboard.json"
CHOSEN: Final = (
    "Replicas up",
    "Attempts",
    "Latency, 99th percentile",
    "Pending pods",
    "Waiting pods by the plugins that rejected them",
    "Oldest pending pod",
    "Requests to the API server",
    "CPU",
)
_RATE: Final = "15s"
_COLOURS: Final = ("#3274d9", "#e0752d", "#299c46", "#b877d9", "#c4162a", "#8f8f8f", "#d8a200")
_WIDTH, _HEIGHT, _COLUMNS = 470, 210, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 30, 46

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """One series: its legend, and points in seconds since the beginning."""

    legend: str
    points: Points


@dataclass(frozen=True)
class Panel:
    """What one panel shows."""

    title: str
    unit: str
    lines: Sequence[Line]


def read_panels(prometheus: Prometheus, seconds: float) -> list[Panel]:
    """Ask for everything that the chosen panels show of the last *seconds*."""
    panels = {each["title"]: each for each in json.loads(DASHBOARD.read_text())["panels"]}
    return [_read_panel(prometheus, panels[title], seconds) for title in CHOSEN]


def _read_panel(prometheus: Prometheus, panel: dict[str, Any], seconds: float) -> Panel:
    lines = []
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", _RATE).replace("$job", "py-scheduler")
        for series in prometheus.query_range(query, seconds, step_seconds=2):
            begin = time.time() - seconds
            points = [(float(at) - begin, float(value)) for at, value in series["values"]]
            known = [(at, value) for at, value in points if not math.isnan(value)]
            legend = _legend(target["legendFormat"], series["metric"])
            if known:
                lines.append(Line(legend, known))
    return Panel(panel["title"], panel["fieldConfig"]["defaults"]["unit"], lines)


def _legend(text: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


# Drawing.


def draw(panels: Sequence[Panel], seconds: float) -> str:
    """Return the panels as one SVG picture."""
    rows = math.ceil(len(panels) / _COLUMNS)
    width, height = _WIDTH * _COLUMNS, _HEIGHT * rows
    body = "\n".join(
        f'<g transform="translate({_WIDTH * (n % _COLUMNS)},{_HEIGHT * (n // _COLUMNS)})">'
        f"{_draw_panel(panel, seconds)}</g>"
        for n, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _draw_panel(panel: Panel, seconds: float) -> str:
    top = _ceiling(max((y for line in panel.lines for _, y in line.points), default=1.0))
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(at: float) -> float:
        return _LEFT + (right - _LEFT) * at / seconds

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    return "".join(
        (
            svg.text(_LEFT, 18, panel.title, size=13, bold=True),
            *_draw_grid(panel.unit, top, seconds, x, y),
            *(_draw_line(line, _colour(n), x, y) for n, line in enumerate(panel.lines)),
            *_draw_legend(panel.lines),
        )
    )


def _draw_grid(
    unit: str, top: float, seconds: float, x: Callable[[float], float], y: Callable[[float], float]
) -> Iterable[str]:
    for part in range(5):
        value = top * part / 4
        yield (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            'stroke="#e3e3e3"/>'
        )
        yield svg.text(_LEFT - 6, y(value) + 4, _in_unit(value, unit), anchor="end", colour="#666")
    for minute in range(int(seconds // 60) + 1):
        yield svg.text(
            x(minute * 60), y(0) + 14, f"{minute} min", anchor="middle", colour="#666", size=10
        )


def _draw_line(
    line: Line, colour: str, x: Callable[[float], float], y: Callable[[float], float]
) -> str:
    path, last = [], -math.inf
    for at, value in line.points:
        # Nothing is drawn where nothing was known.
        path.append(f"{'L' if at - last < 5 else 'M'}{x(at):.1f} {y(value):.1f}")
        last = at
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _draw_legend(lines: Sequence[Line]) -> Iterable[str]:
    at = float(_LEFT)
    for number, line in enumerate(lines):
        y = _HEIGHT - 12
        yield f'<rect x="{at:.0f}" y="{y - 8}" width="9" height="9" fill="{_colour(number)}"/>'
        yield svg.text(at + 13, y, line.legend)
        at += 26 + 6.2 * len(line.legend)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _ceiling(value: float) -> float:
    """Return a round number that is a little larger."""
    if value <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(value))
    return next(
        magnitude * step for step in (1, 1.2, 1.6, 2, 4, 6, 8, 10) if magnitude * step >= value
    )


def _in_unit(value: float, unit: str) -> str:
    match unit:
        case "s" if value < 1:
            return f"{value * 1000:g} ms"
        case "s":
            return f"{value:g} s"
        case "ops":
            return f"{value:g}/s"
        case "bytes":
            return f"{value / 1e6:.0f} MB"
        case _:
            return f"{value:g}"


# The run.


def live(seconds: float) -> list[Panel]:
    """Run two replicas under load for *seconds*, and return what the panels show."""
    with Arena(Times(), pods_per_second=25) as arena:
        token = scraping_token(arena.plane, "failovers")
        targets = [Target("py-scheduler", port, token) for port in arena.reserve(3)]
        with Prometheus(arena.plane, targets) as prometheus:
            leader = arena.start()
            standby = arena.start()
            began = time.monotonic()
            arena.begin_load()
            _sleep_until(began + seconds / 3)
            for number in range(6):
                arena.write_pod(f"huge-{number}", cpu="1000")
                # Spread over several scrapes, so that the panel of pending pods shows a slope.
                time.sleep(2)
            _sleep_until(began + seconds * 2 / 3)
            leader.scheduler.kill()
            arena.start()
            _sleep_until(began + seconds)
            assert standby.leads()
            return read_panels(prometheus, seconds)


def _sleep_until(moment: float) -> None:
    # What the panels show is time itself: so much of it with load, and so much after the kill.
    time.sleep(max(0.0, moment - time.monotonic()))


def main() -> None:
    """Run, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    options = parser.parse_args()
    panels = live(options.seconds)
    options.path.parent.mkdir(parents=True, exist_ok=True)
    options.path.write_text(draw(panels, options.seconds))
    empty = [panel.title for panel in panels if not panel.lines]
    print(f"{options.path}: {len(panels)} panels, without data: {', '.join(empty) or 'none'}")


if __name__ == "__main__":
    main()
