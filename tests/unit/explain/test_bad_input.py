"""Snapshots and manifests that cannot be read are refused in one line."""

import pytest

from scheduler.errors import ConfigurationError
from scheduler.explain.request import ExplainRequest, explain_pod
from tests.unit.explain.explain_calls import explain_known, explain_new, new, node, pod


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "dump: is empty; give what `kubectl get"),
        ("[]", "dump: holds no Kubernetes object; give"),
        ("just words", "dump: holds no Kubernetes object; give"),
        ("{}", "dump: an object without kind; give"),
        ('{"kind": "List", "items": 3}', "dump: items: must be a list of objects"),
        ('{"kind": "List", "items": [{}]}', "dump: an item without kind; give"),
        (
            '{"kind": "List", "items": [{"ki',
            "dump: ends in the middle of an object (line 1)",
        ),
        ('{"kind": "List",', "dump: ends in the middle of an object (line 1): it was cut off"),
        (
            '{"kind": "List"}\n{"kind" 3}',
            "dump: no JSON: line 2, column 9: Expecting ':'",
        ),
        ("[" * 5000, "dump: is nested too deeply"),
        ('{"a":' * 99999, "dump: is nested too deeply"),
        ("a: b: c", "dump: neither JSON nor YAML: mapping values are not allowed"),
        ('{"kind": "List", "items": []}', "there is no pod default/web in the snapshot; name its"),
    ],
)
def test_a_bad_snapshot_is_refused_in_one_line(text, says):
    with pytest.raises(ConfigurationError) as caught:
        explain_pod(ExplainRequest(name="web", snapshots=(("dump", text),)))
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"kind": "Deployment"}, "pod.yaml: must hold one Pod and nothing else, not Deployment"),
        (
            {"kind": "Deployment", "spec": {"template": {}}},
            "pod.yaml: must hold one Pod and nothing else, not Deployment; write its spec.template",
        ),
        ({**new(), "spec": 3}, "pod.yaml: spec: Expected `object`, got `int`"),
        ({**new(), "metadata": {"name": 3}}, "pod.yaml: metadata.name: Expected `str`"),
        (new(cpu="lots"), "pod.yaml: spec.containers[0].resources.requests[cpu]"),
        (new(priorityClassName="gone"), "spec.priorityClassName: there is no PriorityClass gone"),
    ],
)
def test_a_bad_manifest_is_refused_in_one_line(document, says):
    with pytest.raises(ConfigurationError) as caught:
        explain_new(document)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigurationError, match="there is no profile other; the configuration"):
        explain_known(profile="other")


def test_a_pod_that_has_ended_is_reported():
    with pytest.raises(ConfigurationError, match=r"pod default/web is over \(Succeeded\)"):
        explain_known(node("a"), {**pod("web"), "status": {"phase": "Succeeded"}})
