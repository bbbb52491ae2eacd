"""What the demo shows, without a control plane."""

from pathlib import Path

import yaml

from hack.demo import WORKLOAD, Row, Screen, counts, demo_nodes, row_of, spread, table

ROWS = (
    Row("whale", "waiting", "", "", "0/9 nodes are available: " + "9 Insufficient cpu, " * 9),
    Row("web-1", "bound", "east-1", "east", "best of 3 that fit, 9 evaluated"),
    Row("web-2", "bound", "north-1", "north", "best of 2 that fit, 9 evaluated"),
)


def _pod(name, *, gates=(), node=None, message=""):
    spec = {"schedulingGates": [{"name": gate} for gate in gates]} | (
        {"nodeName": node} if node else {}
    )
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [condition]}}


def test_a_row_says_why_in_the_words_of_the_condition():
    message = "0/9 nodes are available: 9 Insufficient cpu."

    assert row_of(_pod("a", message=message), {}, {}) == Row("a", "waiting", "", "", message)
    assert row_of(_pod("a", gates=["x/y"]), {}, {}) == Row("a", "gated", "", "", "waits for x/y")


def test_a_bound_row_says_among_how_many_it_was_the_best():
    bound = {"a": {"feasible": 3, "evaluated": 9}, "b": {"feasible": 1, "evaluated": 9}}
    zones = {"n": "east"}

    assert row_of(_pod("a", node="n"), zones, bound).why == "best of 3 that fit, 9 evaluated"
    assert row_of(_pod("b", node="n"), zones, bound).why == "the only one of 9 that fits"
    assert row_of(_pod("c", node="n"), zones, bound).zone == "east"


def test_the_table_fits_the_screen_and_bound_pods_come_first():
    lines = list(table(ROWS, Screen(width=80)))

    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[:4]] == ["pod", "web-1", "web-2", "whale"]


def test_colours_change_nothing_but_the_look():
    plain, colourful = (list(table(ROWS, Screen(colour=colour))) for colour in (False, True))
    bare = [
        line.replace("\x1b[32m", "").replace("\x1b[33m", "").replace("\x1b[2m", "")
        for line in colourful
    ]

    assert [line.replace("\x1b[0m", "") for line in bare] == plain
    assert plain != colourful


def test_letters_of_old_terminals_are_enough(capsys):
    Screen(unicode=False).say("✓ █ …")

    assert capsys.readouterr().out == "+ # ...\n"


def test_bars_show_every_zone_and_counts_sum_up():
    assert list(spread(ROWS, "web-", Screen()))[1:] == ["  east    ███ 1", "  north   ███ 1"]
    assert counts(ROWS) == "3 pods: 2 bound, 1 waiting, 0 gated."


def test_the_workload_is_about_nodes_that_are_there():
    """Every manifest is ours to schedule, and every special node has somebody who wants it."""
    documents = [
        document
        for path in Path(WORKLOAD).glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
    ]
    pods = [each for each in documents if each["kind"] == "Pod"]
    templates = [each["spec"]["template"] for each in documents if each["kind"] == "Deployment"]

    assert {each["spec"]["schedulerName"] for each in (*pods, *templates)} == {"py-scheduler"}
    assert len(demo_nodes()) == 9
