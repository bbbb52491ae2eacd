"""Charts: well-formed, as wide as their values say, and safe for any name."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks.svg import COLOURS, Bar, Chart, ceiling, draw

NAMESPACE = "{http://www.w3.org/2000/svg}"


def chart(*groups, series=("ours", "theirs")):
    return Chart("Pods & <bars>", "pods/s", series, groups)


def bars_of(text):
    """Return colour and width of every bar; legend and background have other sizes."""
    found = [dict(each.attrib) for each in ET.fromstring(text).iter(f"{NAMESPACE}rect")]
    return [(bar["fill"], float(bar["width"])) for bar in found if bar["height"] == "9"]


def test_bars_are_as_wide_as_their_values():
    text = draw(chart(("basic", (Bar(200.0), Bar(50.0)))))
    (ours, wide), (theirs, narrow) = bars_of(text)

    assert (ours, theirs) == COLOURS[:2]
    assert wide == pytest.approx(4 * narrow)


def test_what_is_absent_is_left_out_and_its_place_is_kept():
    text = draw(chart(("basic", (None, Bar(5.0)))))

    assert [colour for colour, _ in bars_of(text)] == [COLOURS[1]]


def test_a_range_is_a_line_and_one_measurement_has_none():
    def lines(*bars):
        root = ET.fromstring(draw(chart(("basic", bars))))
        return [each for each in root.iter(f"{NAMESPACE}line") if each.get("stroke") == "#222"]

    assert len(lines(Bar(5.0, 4.0, 6.0), Bar(5.0, 5.0, 5.0))) == 1


def test_names_are_escaped():
    text = draw(chart(("<&>", (Bar(1.0), Bar(2.0)))))
    words = {each.text for each in ET.fromstring(text).iter(f"{NAMESPACE}text")}

    assert {"<&>", "Pods & <bars>"} <= words


def test_an_empty_chart_and_a_wrong_one():
    ET.fromstring(draw(chart()))
    with pytest.raises(ValueError, match="'basic' has 1 bars for 2 series"):
        draw(chart(("basic", (Bar(1.0),))))


@pytest.mark.parametrize(
    ("value", "end"), [(0, 1), (1, 1), (1.01, 1.5), (99, 100), (101, 150), (0.07, 0.08), (743, 800)]
)
def test_an_axis_ends_at_a_round_number(value, end):
    assert ceiling(value) == pytest.approx(end)
