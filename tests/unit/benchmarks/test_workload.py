"""Workloads: those that come with the benchmark are sound, and a bad file says what is wrong."""

import msgspec
import pytest
import yaml

from benchmarks import workload
from benchmarks.null_plan import plan
from benchmarks.objects import (
    index_of,
    measured_pods,
    namespaces,
    nodes,
    object_name,
    running_pods,
    services,
)
from benchmarks.placement import check
from benchmarks.workload import WorkloadError

TEMPLATES = workload.read_templates()
GOOD = """\
# What it is for.
upstream: SchedulingBasic
sizes:
  full: {nodes: 4, init: 4, measured: 6}
  tiny: {nodes: 2, init: 2, measured: 3}
phases:
  - {kind: nodes, count: nodes}
  - {kind: pods, name: init, template: pod-default, count: init}
  - {kind: measured, template: pod-default, count: measured}
"""


def read(tmp_path, text, scale="tiny"):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return workload.read(path, scale, TEMPLATES)


@pytest.mark.parametrize("scale", workload.SCALES)
@pytest.mark.parametrize("name", workload.names())
def test_every_workload_has_every_size(name, scale):
    found = workload.load(name, scale)

    assert found.scale == scale
    assert found.measured.count == found.sizes["measured"]
    assert found.modes
    assert found.about.endswith(".")


def test_those_of_upstream_are_there_once_each():
    upstream = [workload.load(name, "tiny").upstream for name in workload.names()]

    assert len(set(upstream)) == len(upstream) == 26


@pytest.mark.parametrize("name", workload.names())
def test_what_the_null_scheduler_answers_is_a_right_placement(name):
    """The ceiling is that of the workload's own rules; and the check accepts what is right."""
    found = workload.load(name, "tiny")
    posted = [msgspec.json.decode(post.body) for post in nodes(found)]
    pods = [msgspec.json.decode(post.body) for post in running_pods(found, "null-scheduler")]
    if found.measured.victims:
        pods = []  # each measured pod takes the place of others
    answers = plan(found)
    for post in measured_pods(found, "null-scheduler", found.measured.count):
        pod = msgspec.json.decode(post.body)
        pod["spec"]["nodeName"], _ = answers.answer(post.name)
        pods.append(pod)
    spaces = [msgspec.json.decode(post.body) for post in namespaces(found)]

    assert check(pods, posted, spaces, found.measured.name) == []


@pytest.mark.parametrize("name", workload.names())
def test_every_pod_is_in_a_namespace_that_is_created(name):
    found = workload.load(name, "tiny")
    created = {post.name for post in namespaces(found)}
    posts = [*running_pods(found, "any"), *measured_pods(found, "any", 3), *services(found)]

    assert {post.path.split("/")[4] for post in posts} <= created


def test_running_pods_are_dealt_out_over_the_nodes(tmp_path):
    found = read(tmp_path, GOOD, "full")
    on = [msgspec.json.decode(post.body)["spec"]["nodeName"] for post in running_pods(found, "any")]

    assert on == [object_name("node", index) for index in range(4)]


def test_a_pod_has_its_name_its_scheduler_and_no_placeholder(tmp_path):
    (post, *_) = measured_pods(read(tmp_path, GOOD), "default-scheduler", 3)
    pod = msgspec.json.decode(post.body)

    assert pod["metadata"] == {"name": "measured-000000", "namespace": "measured"}
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert "nodeName" not in pod["spec"]
    assert b"@" not in post.body
    assert index_of(post.name) == 0


def test_the_number_of_an_extended_resource_is_that_of_its_node():
    found = workload.load("extended-resource", "tiny")
    pod = list(measured_pods(found, "any", 8))[7]
    (resource,) = msgspec.json.decode(pod.body)["spec"]["containers"][0]["resources"]["requests"]

    assert resource == "foo.com/bar-7"
    assert resource in msgspec.json.decode(list(nodes(found))[7].body)["status"]["allocatable"]
    assert plan(found).answer(pod.name)[0] == "node-000007"


FIRST_LINE, PHASES = "# What it is for.\n", GOOD.partition("phases:")[2]
MEASURED = "  - {kind: measured"
DELETED = f"  - {{kind: deletions, of: x, per_second: 1}}\n{MEASURED}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (PHASES, " []", "last one is measured"),
        ("kind: nodes, count", "kind: knots, count", "phases[0].kind"),
        ("count: nodes}", "count: knots}", "phases[0].count: no size 'knots' among nodes, init"),
        ("count: nodes}", "count: -1}", "$.phases[0].count"),
        ("template: pod-default, count: init", "template: x, count: init", "no template 'x'"),
        ("template: pod-default, count: init", "template: churn-node, count: init", "(Pod)"),
        ("name: init,", "name: init, node_group: other,", "no nodes are named 'other'"),
        ("name: init,", "name: init, colour: red,", "colour"),
        ("init: 2", "init: 2, spare: 1", "no phase has the size spare"),
        ("init: 4, ", "", "sizes.full names other sizes"),
        (FIRST_LINE, "", "comment that says what it is for"),
        ("  tiny:", "  huge:", "huge"),
        ("upstream: SchedulingBasic\n", "", "upstream"),
        ("sizes:", "sizes: [", "mine.yaml"),
        (MEASURED, DELETED, "no earlier pods are named 'x'"),
    ],
)
def test_a_bad_file_says_where_and_what(tmp_path, old, new, says):
    assert old in GOOD

    with pytest.raises(WorkloadError) as raised:
        read(tmp_path, GOOD.replace(old, new))

    assert says in str(raised.value)
    assert str(raised.value).startswith("mine.yaml: ")


def test_a_size_that_is_absent_and_a_name_that_is_unknown(tmp_path):
    with pytest.raises(WorkloadError, match="no size 'small', only full, tiny"):
        read(tmp_path, GOOD, "small")
    with pytest.raises(WorkloadError, match="no workload 'other'; there are: daemonset"):
        workload.load("other", "tiny")


def test_templates_are_used():
    used = {name for each in workload.names() for name in workload.load(each, "tiny").templates}

    assert used == set(TEMPLATES)
    assert yaml.safe_load(workload.TEMPLATES.read_text()).keys() >= {"pods", "nodes", "services"}
