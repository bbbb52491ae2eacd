"""Whatever an extender answers, only its own attempt suffers."""

import contextlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.document import Extender
from scheduler.framework.extender_protocol import (
    ExtenderError,
    ResponseBody,
    bind_request,
    filter_request,
    preempt_request,
    prioritize_request,
    read_bind,
    read_filter,
    read_preempt,
    read_scores,
)
from scheduler.framework.rejection import Candidate
from scheduler.testing import make_node, make_pod, make_table

POD, VICTIM = make_pod(), make_pod("victim", node="a")
NODES = make_table(make_node("a"), make_node("b"), placed=[VICTIM])
CANDIDATES = [Candidate("a", (VICTIM,))]
WORDS = st.sampled_from(
    [
        *("error", "NodeNames", "nodes", "items", "metadata", "name", "failedNodes"),
        *("failedAndUnresolvableNodes", "nodeNameToMetaVictims", "pods", "UID"),
        *("numPDBViolations", "host", "score", "a", "b", VICTIM.uid),
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def extender(**more):
    verbs = dict.fromkeys(("filter_verb", "prioritize_verb", "bind_verb", "preempt_verb"), "x")
    return Extender(url_prefix="http://x", weight=2, **(verbs | more))


@given(ANYTHING, st.booleans(), st.booleans())
def test_any_answer_is_an_answer_or_an_error_of_the_extender(said, cached, ignorable):
    service = extender(node_cache_capable=cached, ignorable=ignorable)
    answer = ResponseBody(msgspec.json.encode(said))
    reading = (
        lambda: read_filter(filter_request(service, POD, NODES), answer, NODES),
        lambda: read_scores(prioritize_request(service, POD, NODES), answer, NODES),
        lambda: read_bind(bind_request(service, POD, "a"), answer),
        lambda: read_preempt(preempt_request(service, POD, CANDIDATES), answer, NODES, CANDIDATES),
    )
    for read in reading:
        with contextlib.nullcontext() if ignorable else contextlib.suppress(ExtenderError):
            read()


@pytest.mark.parametrize(
    "body", [b"", b"soon", b"[]", b'{"nodeNames":5}', b'{"nodes":{"items":[3]}}', b"[" * 5000]
)
def test_an_answer_that_cannot_be_read_says_whose_it_is(body):
    service = extender(node_cache_capable=True)

    with pytest.raises(ExtenderError, match=r'^extender "http://x" gave an answer that cannot be'):
        read_filter(filter_request(service, POD, NODES), ResponseBody(body), NODES)


def test_null_and_keys_in_any_case_are_read_as_go_reads_them():
    service = extender(node_cache_capable=True)
    answer = ResponseBody(b'{"NODENAMES":["b"],"error":null,"failedNodes":null,"Nodes":null}')

    found = read_filter(filter_request(service, POD, NODES), answer, NODES)

    assert found.feasible.tolist() == [False, True]


def test_a_score_that_no_int64_holds_counts_for_nothing():
    service = extender()
    answer = ResponseBody(b'[{"host":"a","score":9223372036854775807},{"host":"b","score":3}]')

    found = read_scores(prioritize_request(service, POD, NODES), answer, NODES)

    assert found.dtype == np.int64
    assert found.tolist() == [0, 60]
