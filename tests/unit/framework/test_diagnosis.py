"""The one-line summary, to the letter (framework/types_test.go, TestFitError_Error)."""

import numpy as np
import pytest

from scheduler.framework.diagnosis import Diagnosis, Verdict, single


def verdict(reason, *rows, plugin="Filter", nodes=3, resolvable=True):
    mask = np.zeros(nodes, dtype=np.bool_)
    mask[list(rows)] = True
    return Verdict(plugin, reason, mask, mask & resolvable)


def diagnosis(*verdicts, nodes=3, **more):
    names = tuple(f"n{row}" for row in range(nodes))
    return Diagnosis(names=names, verdicts=verdicts, nodes=nodes, **more)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            diagnosis(pre_filter="Node(s) failed PreFilter plugin FalsePreFilter"),
            "0/3 nodes are available: Node(s) failed PreFilter plugin FalsePreFilter.",
        ),
        (
            diagnosis(
                pre_filter="Node(s) failed PreFilter plugin FalsePreFilter",
                absent="Node(s) failed PreFilter plugin FalsePreFilter",
                post_filter="Error running PostFilter plugin FailedPostFilter",
            ),
            (
                "0/3 nodes are available: Node(s) failed PreFilter plugin FalsePreFilter. "
                "Error running PostFilter plugin FailedPostFilter"
            ),
        ),
        (
            diagnosis(verdict("Node(s) failed Filter plugin FalseFilter-1", 0, 1, 2)),
            "0/3 nodes are available: 3 Node(s) failed Filter plugin FalseFilter-1.",
        ),
        (
            diagnosis(
                verdict("Node(s) failed Filter plugin FalseFilter-1", 0, 1, 2),
                post_filter="Error running PostFilter plugin FailedPostFilter",
            ),
            (
                "0/3 nodes are available: 3 Node(s) failed Filter plugin FalseFilter-1. "
                "Error running PostFilter plugin FailedPostFilter"
            ),
        ),
        (
            diagnosis(
                verdict("Node(s) failed Filter plugin FalseFilter-1", 0, 1),
                verdict("Node(s) failed Filter plugin FalseFilter-2", 2),
                post_filter="Error running PostFilter plugin FailedPostFilter",
            ),
            (
                "0/3 nodes are available: 1 Node(s) failed Filter plugin FalseFilter-2, "
                "2 Node(s) failed Filter plugin FalseFilter-1. "
                "Error running PostFilter plugin FailedPostFilter"
            ),
        ),
        (
            single("Permit-1", "Node failed Permit plugin Permit-1"),
            "0/1 nodes are available: 1 Node failed Permit plugin Permit-1.",
        ),
        (diagnosis(), "0/3 nodes are available:"),
        (diagnosis(post_filter="x"), "0/3 nodes are available: x"),
        (
            diagnosis(verdict("a", 0, 1), verdict("b", 1)),
            "0/3 nodes are available: 1 b, 2 a.",
        ),
        (
            diagnosis(verdict("a", 0), absent="outside"),
            "0/3 nodes are available: 1 a, 2 outside.",
        ),
        (diagnosis(verdict("a", 0, 1, 2), absent="outside"), "0/3 nodes are available: 3 a."),
        (
            diagnosis(verdict("same", 0), verdict("same", 1, 2, plugin="Other")),
            "0/3 nodes are available: 3 same.",
        ),
    ],
)
def test_the_summary_is_upstreams(given, text):
    assert given.message == text


def test_entries_are_sorted_as_text_and_not_as_numbers():
    given = diagnosis(
        verdict("ten", *range(10), nodes=13),
        verdict("two", 10, 11, nodes=13),
        verdict("one", 12, nodes=13),
        nodes=13,
    )

    assert given.message == "0/13 nodes are available: 1 one, 10 ten, 2 two."


def test_a_hundred_nodes_alike_make_one_short_line():
    """TestSchedulerFailedSchedulingReasons: at most 150 characters."""
    given = diagnosis(
        verdict("Insufficient cpu", *range(100), nodes=100),
        verdict("Insufficient memory", *range(100), nodes=100),
        nodes=100,
    )

    assert given.message == (
        "0/100 nodes are available: 100 Insufficient cpu, 100 Insufficient memory."
    )


def test_what_post_filters_say_is_added_and_nothing_else_changes():
    given = diagnosis(verdict("a", 0, 1, 2), rejected_by=frozenset({"Filter"}))

    added = given.with_post_filter("preemption: no")

    assert added.message == f"{given.message} preemption: no"
    assert added.rejected_by == {"Filter"}
