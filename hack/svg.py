"""Text in SVG, for the charts of benchmarks and the picture of the dashboard."""

from html import escape


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    colour: str = "#222",
    size: int = 11,
    bold: bool = False,
) -> str:
    """Return *content* as an element at a position, escaped."""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}"{weight}>{escape(content)}</text>'
    )
