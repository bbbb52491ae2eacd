"""Logs: one form for machines, one for people."""

import ast
import io
import json
import logging
import re
from pathlib import Path

import pytest
import structlog

from scheduler.observe import event_names, logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored():
    """Restore logging after each test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def written(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_begin_with_time_level_and_event():
    logs.configure("info", "json", stream := io.StringIO())

    logs.get_logger(component="loop").info(event_names.POD_BOUND, pod="a/b", nodes=3)

    (line,) = written(stream)
    assert list(line) == ["time", "level", "event", "component", "pod", "nodes"]
    assert (line["level"], line["event"], line["pod"]) == ("info", "pod.bound", "a/b")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])


def test_less_severe_lines_are_left_out():
    logs.configure("warning", "json", stream := io.StringIO())

    logs.get_logger().info("a.b")
    logs.get_logger().warning("c.d")

    assert [line["event"] for line in written(stream)] == ["c.d"]


def test_a_module_level_logger_follows_a_later_configuration():
    log = logs.get_logger()
    logs.configure("info", "json", io.StringIO())
    log.info("a.b")
    logs.configure("info", "json", stream := io.StringIO())

    log.info("c.d")

    assert [line["event"] for line in written(stream)] == ["c.d"]


def test_exceptions_stay_on_one_line():
    logs.configure("info", "json", stream := io.StringIO())

    try:
        int("oh")
    except ValueError:
        logs.get_logger().exception("plugin.failed")

    (line,) = written(stream)
    assert line["exception"].endswith("'oh'")


def test_anything_can_be_a_field():
    logs.configure("info", "json", stream := io.StringIO())

    logs.get_logger().info("a.b", path=Path("/x"), error=ValueError("oh"))

    assert written(stream)[0]["path"] == "/x"
    assert written(stream)[0]["error"] == "oh"


def test_libraries_log_in_the_same_form():
    logs.configure("info", "json", stream := io.StringIO())

    logging.getLogger("aiohttp.server").warning("hm %s", 1)
    logging.getLogger("kubernetes").info("chatter")

    (line,) = written(stream)
    assert (line["event"], line["logger"], line["level"]) == ("hm 1", "aiohttp.server", "warning")


def test_people_get_a_readable_line():
    logs.configure("info", "console", stream := io.StringIO())

    logs.get_logger().info("pod.bound", pod="a/b")

    assert "pod.bound" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize(
    ("style", "stream", "environment", "readable"),
    [
        ("auto", Terminal(), {}, True),
        ("auto", Terminal(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        ("auto", io.StringIO(), {}, False),
        ("console", io.StringIO(), {}, True),
        ("json", Terminal(), {}, False),
    ],
)
def test_the_form_depends_on_the_reader(style, stream, environment, readable):
    assert logs.is_readable(style, stream, environment) is readable


def test_event_names_are_distinct_and_well_formed():
    tree = ast.parse(Path(event_names.__file__).read_text(encoding="utf-8"))
    pairs = [
        (node.target.id, node.value.value) for node in tree.body if isinstance(node, ast.AnnAssign)
    ]

    assert len({name for name, _ in pairs}) == len({value for _, value in pairs}) == len(pairs)
    for _, value in pairs:
        assert re.fullmatch(r"[a-z_]+\.[a-z_]+", value)
