"""Objects may be nested as deeply as the API server lets them; we see them all the same."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.kube.binding import Bound, judge_read_back
from scheduler.kube.decode import ObjectChanged, ObjectDecoder
from scheduler.kube.deep_json import DEEPEST, truncate_depth
from scheduler.kube.watched import PODS, custom

# As deep as the API server takes it.
NESTED = b'{"f:a":' * 9_990 + b"{}" + b"}" * 9_990
POD = (
    b'{"metadata":{"name":"p","namespace":"d","uid":"u","managedFields":[{"fieldsV1":%s}]},'
    b'"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}'
    % NESTED
)
WIDGETS = custom("widgets.v1.example.com")

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='{}[]":,\\ aé'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='{}[]"\\'), inner, max_size=3)
    ),
    max_leaves=30,
)


def cut(document, deepest):
    if not isinstance(document, dict | list):
        return document
    if not deepest:
        return None
    if isinstance(document, dict):
        return {key: cut(value, deepest - 1) for key, value in document.items()}
    return [cut(value, deepest - 1) for value in document]


@given(DOCUMENTS, st.integers(0, 4))
@example("[", 0)
@example(["]", "{"], 1)
def test_what_lies_deeper_is_null_and_all_else_stays(document, deepest):
    content = json.dumps(document).encode()

    assert json.loads(truncate_depth(content, deepest)) == cut(document, deepest)


@pytest.mark.parametrize("raw", [False, True])
def test_a_deep_pod_is_read_like_any_other(raw):
    decoder = ObjectDecoder(PODS.with_raw() if raw else PODS)
    event = decoder.event(b'{"type":"ADDED","object":%s}' % POD)
    (item,) = decoder.page(b'{"metadata":{},"items":[%s]}' % POD).items
    listed = decoder.item(item)

    assert isinstance(event, ObjectChanged)
    for pod in (event.object, listed):
        assert (pod.key, pod.node_name, pod.requests) == ("d/p", "n", {"cpu": 2000})
        assert not pod.malformed


@pytest.mark.parametrize("depth", [150, 600, 9_990])
def test_a_deep_custom_object_is_cut_off(depth):
    """What plugins see, and what is compared, is never deeper than code can walk."""
    nested = b'{"a":' * depth + b"{}" + b"}" * depth
    line = b'{"type":"ADDED","object":{"metadata":{"name":"w"},"spec":{"size":3,"deep":%s}}}'
    event = ObjectDecoder(WIDGETS).event(line % nested)

    spec = event.object.content["spec"]
    assert spec["size"] == 3
    levels, inner = 0, spec["deep"]
    while inner:
        levels, inner = levels + 1, inner["a"]
    assert levels <= min(depth, DEEPEST)


def test_a_deep_pod_is_read_back():
    assert judge_read_back(POD, "u", "n") == Bound("n")


def test_nothing_is_spent_on_ordinary_objects():
    content = msgspec.json.encode({"metadata": {"name": "w"}, "spec": {"size": 3}})

    assert truncate_depth(content) is content
