"""`py-scheduler explain` on a snapshot: the same decision, and everybody heard out."""

import gzip
import json
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli import main
from scheduler.errors import ConfigurationError
from scheduler.explain.question import Question, answer

EXAMPLES = Path(__file__).parents[3] / "examples"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def node(name, cpu="4", taint="", **labels):
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name, cpu="1", at="", **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "py-scheduler",
            "nodeName": at,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        "status": {"phase": "Running" if at else "Pending"},
    }


def dump(*items):
    return ("dump", json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))


CLUSTER = (
    node("free"),
    node("full"),
    node("kept", cpu="1", taint="dedicated"),
    pod("busy", cpu="3", at="full"),
    pod("web", cpu="2"),
)


def ask(*items, name="web", **more):
    return answer(Question(name=name, snapshots=(dump(*(items or CLUSTER)),), **more))


def test_the_decision_is_told():
    said = ask()

    assert said["schemaVersion"] == 1
    assert said["pod"] == {"namespace": "default", "name": "web", "priority": 0}
    assert (said["profile"], said["decision"], said["node"]) == ("py-scheduler", "Bind", "free")
    assert said["feasible"] == ["free"]
    assert said["ties"] == ["free"]
    assert said["message"] == "default/web would be bound to free"
    assert said["preemption"] is None


def test_every_plugin_is_heard_about_every_refused_node():
    """The runner would blame `kept` on its taint alone; removing that would not help."""
    said = ask()["rejected"]

    assert said == {
        "full": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "resolvable": True}],
        "kept": [
            {
                "plugin": "TaintToleration",
                "reason": "node(s) had untolerated taint(s)",
                "resolvable": False,
            },
            {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "resolvable": False},
        ],
    }


def test_scores_add_up_to_totals():
    said = ask(node("a"), node("b"), pod("busy", at="a"), pod("web"))

    assert list(said["totals"]) == ["b", "a"]
    for name, by_plugin in said["scores"].items():
        assert said["totals"][name] == sum(each["weighted"] for each in by_plugin.values())
        for plugin, each in by_plugin.items():
            assert each["weighted"] == each["normalized"] * said["weights"][plugin]
            assert 0 <= each["normalized"] <= 100
    assert said["scores"]["a"]["TaintToleration"] == {
        "raw": 0,
        "normalized": 100,
        "weighted": 300,
    }


def test_ties_name_the_chosen_node_first():
    said = ask(node("a"), node("b"), node("c"), pod("web"))

    assert sorted(said["ties"]) == ["a", "b", "c"]
    assert said["ties"][0] == said["node"]


def test_a_pod_that_fits_nowhere_is_parked_with_upstreams_message():
    said = ask(node("a", taint="t"), pod("web"))

    assert (said["decision"], said["node"]) == ("Park", None)
    assert said["message"].startswith(
        "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    )
    assert said["scores"] == {}
    assert said["totals"] == {}


def test_a_cluster_without_nodes_is_told_as_such():
    said = ask(pod("web"))

    assert (said["decision"], said["message"]) == ("Retry", "no nodes available to schedule pods")
    assert {"kind": "Node", "plugins": []} in said["missing"]


def test_a_bound_pod_is_explained_as_if_it_were_pending():
    """Otherwise it would be in its own way."""
    said = ask(node("a", cpu="2"), pod("web", cpu="2", at="a"))

    assert said["node"] == "a"
    assert "the pod is on a already; explained as if it were still pending" in said["notes"]


def test_nominated_pods_are_counted_on():
    """As in the cycle: room that is kept for a pod at least as important is not free."""
    rival = pod("rival", cpu="3", priority=10)
    rival["status"]["nominatedNodeName"] = "a"

    said = ask(node("a"), node("b"), rival, pod("web", cpu="2"))

    assert said["feasible"] == ["b"]
    assert [each["reason"] for each in said["rejected"]["a"]] == ["Insufficient cpu"]


def test_gates_are_told():
    said = ask(node("a"), pod("web", schedulingGates=[{"name": "example.com/wait"}]))

    assert [each["plugin"] for each in said["gates"]] == ["SchedulingGates"]


def test_ended_pods_take_no_room():
    ended = pod("busy", cpu="4", at="a")
    ended["status"]["phase"] = "Succeeded"

    assert ask(node("a"), ended, pod("web"))["feasible"] == ["a"]


def test_a_node_that_cannot_be_read_is_closed_and_named():
    broken = node("broken", cpu="a lot")

    said = ask(node("a"), broken, pod("web"))

    (objection,) = said["rejected"]["broken"]
    assert objection["plugin"] == ""
    assert "status.allocatable[cpu]" in objection["reason"]


def test_kinds_that_are_missing_are_named_with_their_readers():
    said = ask()
    assert {"kind": "Service", "plugins": ["PodTopologySpread"]} in said["missing"]

    none = {"apiVersion": "v1", "kind": "ServiceList", "items": []}
    said = answer(Question(name="web", snapshots=(dump(*CLUSTER), ("more", json.dumps(none)))))
    assert "Service" not in {each["kind"] for each in said["missing"]}


def test_several_files_and_yaml_make_one_cluster():
    first, second = (
        ("nodes", yaml.safe_dump_all([node("a"), node("b", taint="t")])),
        ("pods", yaml.safe_dump({"apiVersion": "v1", "kind": "PodList", "items": [pod("web")]})),
    )

    said = answer(Question(name="web", snapshots=(first, second)))

    assert (said["nodes"], said["node"]) == (2, "a")


def test_the_output_of_several_commands_may_follow_each_other():
    """``(kubectl get nodes -o json; kubectl get pods -A -o json) > dump.json``."""
    parts = (dump(*CLUSTER[:2])[1], json.dumps(json.loads(dump(*CLUSTER[2:])[1]), indent=2))

    said = answer(Question(name="web", snapshots=(("dump", "\n".join(parts)),)))

    assert said == ask()


def test_a_pod_that_is_over_is_told_as_such():
    with pytest.raises(ConfigurationError, match=r"pod default/web is over \(Succeeded\)"):
        ask(node("a"), {**pod("web"), "status": {"phase": "Succeeded"}})


def test_times_in_yaml_stay_text():
    text = (
        "apiVersion: v1\nkind: Node\nmetadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}\n"
    )

    said = answer(Question(name="web", snapshots=(("f", text), dump(pod("web", cpu="0")))))

    assert said["nodes"] == 1
    assert not said["notes"]


# Making room.


def budget(name, allowed, **labels):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def running(name, at, cpu="2", started="", labels=None, **spec):
    document = pod(name, cpu=cpu, at=at, **spec)
    document["metadata"]["labels"] = labels or {}
    if started:
        document["status"]["startTime"] = f"2026-01-01T{started}:00Z"
    return document


def way(name, *victims, pdb_violations=0):
    return {
        "node": name,
        "victims": [f"default/{victim}" for victim in victims],
        "pdb_violations": pdb_violations,
    }


URGENT = pod("web", cpu="4", priority=100)
FULL = (running("a1", "a", cpu="3"), running("b1", "b", cpu="3", priority=200))
ROOM = [
    pytest.param(
        (node("a"), node("b"), *FULL),
        {"node": "a", "victims": ["default/a1"], "candidates": [way("a", "a1")], "message": ""},
        id="only the less important can go",
    ),
    pytest.param(
        (
            *(node("a"), running("a1", "a", priority=9), running("a2", "a")),
            *(node("b"), running("b1", "b"), running("b2", "b")),
        ),
        {
            "node": "b",
            "victims": ["default/b1", "default/b2"],
            "candidates": [way("a", "a1", "a2"), way("b", "b1", "b2")],
            "message": "",
        },
        id="the least important of the most important victims",
    ),
    pytest.param(
        (
            *(node("a"), running("a1", "a", cpu="4", labels={"app": "db"})),
            *(node("b"), running("b1", "b", cpu="4", priority=9)),
            budget("db", 0, app="db"),
        ),
        {
            "node": "b",
            "victims": ["default/b1"],
            "candidates": [way("a", "a1", pdb_violations=1), way("b", "b1")],
            "message": "",
        },
        id="budgets count before importance",
    ),
    pytest.param(
        (
            node("a", cpu="5"),
            running("a1", "a", cpu="1", priority=5),
            running("a2", "a", cpu="1", started="10:00"),
            running("a3", "a", cpu="2", started="09:00"),
            running("a4", "a", cpu="1", started="08:00"),
        ),
        {
            "node": "a",
            "victims": ["default/a4", "default/a3", "default/a2"],
            "candidates": [way("a", "a4", "a3", "a2")],
            "message": "",
        },
        id="who can stay stays, and victims are told by importance",
    ),
    pytest.param(
        (node("a", cpu="3"), node("b", taint="t"), running("a1", "a")),
        {
            "node": None,
            "victims": [],
            "candidates": [],
            "message": "no new claims to deallocate, preemption: 0/2 nodes are available: "
            "2 Preemption is not helpful for scheduling.",
        },
        id="beyond help",
    ),
    pytest.param(
        (node("b"), FULL[1]),
        {
            "node": None,
            "victims": [],
            "candidates": [],
            "message": "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod.",
        },
        id="nobody less important",
    ),
]


@pytest.mark.parametrize(("cluster", "expected"), ROOM)
def test_who_would_be_evicted_and_where_is_told(cluster, expected):
    said = ask(*cluster, URGENT)

    assert said["preemption"] == expected
    assert said["node"] == expected["node"]
    assert said["decision"] == ("Preempt" if expected["node"] else "Park")
    assert said["message"].endswith(expected["message"])


def test_a_pod_that_may_not_preempt_is_told_so():
    said = ask(node("a"), FULL[0], pod("web", cpu="4", priority=9, preemptionPolicy="Never"))

    assert said["preemption"]["candidates"] == []
    assert said["preemption"]["message"].endswith("not eligible due to preemptionPolicy=Never.")


def test_where_the_pod_fits_nothing_is_said_of_preemption():
    assert ask(*FULL, node("a"), node("b"), node("c"), URGENT)["preemption"] is None


# Pods that do not exist yet.


def new(**spec):
    document = pod("new", **spec)
    del document["metadata"]["uid"], document["metadata"]["namespace"], document["status"]
    return document


def ask_new(document, *items, **more):
    manifest = ("pod.yaml", yaml.safe_dump(document))
    return answer(Question(manifest=manifest, snapshots=(dump(*(items or CLUSTER)),), **more))


def test_a_new_pod_is_completed_and_what_was_filled_in_is_shown():
    said = ask_new(new())

    assert said["pod"] == {"namespace": "default", "name": "new", "priority": 0}
    assert said["completed"] == [
        "metadata.namespace: default",
        "spec.priority: 0 (no PriorityClass)",
        "spec.tolerations: node.kubernetes.io/not-ready:NoExecute for 300s",
        "spec.tolerations: node.kubernetes.io/unreachable:NoExecute for 300s",
    ]


def test_priority_comes_from_the_class():
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
        "preemptionPolicy": "Never",
    }
    usual = {**urgent, "metadata": {"name": "usual"}, "value": 7, "globalDefault": True}

    named = ask_new(new(priorityClassName="urgent"), *CLUSTER, urgent, usual)
    assert named["pod"]["priority"] == 1000
    assert "spec.preemptionPolicy: Never (PriorityClass urgent)" in named["completed"]
    assert ask_new(new(), *CLUSTER, urgent, usual)["pod"]["priority"] == 7
    system = ask_new(new(priorityClassName="system-node-critical"))
    assert system["pod"]["priority"] == 2_000_001_000


def test_limits_are_requests_and_host_networks_open_ports():
    document = new(hostNetwork=True)
    document["spec"]["containers"] = [
        {"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "3"}}}
    ]
    taken = pod("taken", at="free", cpu="0")
    taken["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]

    said = ask_new(document, *CLUSTER, taken)

    assert "spec.containers[0].resources.requests[cpu]: 3 (its limit)" in said["completed"]
    assert "spec.containers[0].ports[0].hostPort: 80 (hostNetwork)" in said["completed"]
    assert [each["plugin"] for each in said["rejected"]["free"]] == ["NodePorts"]
    assert "NodeResourcesFit" in {each["plugin"] for each in said["rejected"]["full"]}


def test_tolerations_that_are_there_are_left_alone():
    given = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]

    said = ask_new(new(tolerations=given))

    assert sum(line.startswith("spec.tolerations") for line in said["completed"]) == 1


def test_a_pod_of_another_scheduler_is_explained_under_the_first_profile():
    said = ask_new(new(schedulerName="default-scheduler"))

    assert said["profile"] == "py-scheduler"
    assert any("names the scheduler default-scheduler" in note for note in said["notes"])


# Plugins by users.

PLUGINS = """
import numpy as np

from scheduler import Candidate, Only, Proposal, Refused, Rejection


class Evict:
    name = "Evict"

    def post_filter(self, pod, nodes, diagnosis, ask):
        victims = nodes.pods_on(nodes.row_of("full"))
        return Proposal(Candidate("full", victims), (), "made room")


class Raises:
    name = "Raises"

    def filter(self, pod, nodes):
        raise RuntimeError("no luck")


class Picky:
    name = "Picky"

    def pre_filter(self, pod, nodes):
        return Only(frozenset({"full"}))


class Stubborn:
    name = "Stubborn"

    def pre_filter(self, pod, nodes):
        return Refused("never", resolvable=False)

    def filter(self, pod, nodes):
        yield Rejection(np.ones(len(nodes), dtype=np.bool_), "said twice")


class Loaded:
    name = "Loaded"
    needs = {"gauges.v1.example.com", "node.annotations"}

    def score(self, pod, nodes):
        gauges = nodes.objects.custom("gauges.v1.example.com")
        return np.array(
            [
                gauges[name].content["free"] if name in gauges
                else int(nodes.node(row).metadata.annotations.get("free", 0))
                for row, name in enumerate(nodes.names)
            ],
            dtype=np.int64,
        )
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Return a configuration that enables some of PLUGINS."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "explained_plugins.py").write_text(PLUGINS)

    def enable(*names):
        lines = "".join(f"      - name: explained_plugins:{name}\n" for name in names)
        return f"{HEAD}profiles:\n- plugins:\n    multiPoint:\n      enabled:\n{lines}"

    yield enable
    sys.modules.pop("explained_plugins", None)


def test_preemption_names_its_victims(plugins):
    document = plugins("Evict").replace(
        "    multiPoint",
        "    postFilter: {disabled: [{name: '*'}], enabled: [{name: "
        "'explained_plugins:Evict'}]}\n    multiPoint",
    )

    said = ask(*(each for each in CLUSTER if each["metadata"]["name"] != "free"), config=document)

    assert (said["decision"], said["node"]) == ("Preempt", "full")
    assert said["preemption"] == {
        "node": "full",
        "victims": ["default/busy"],
        "candidates": [{"node": "full", "victims": ["default/busy"], "pdb_violations": 0}],
        "message": "made room",
    }


def test_a_plugin_that_cannot_be_heard_is_named(plugins):
    said = ask(config=plugins("Raises"))

    assert said["decision"] == "Retry"
    assert said["failed"] == {"Raises": "plugin 'Raises' raised RuntimeError in Filter: no luck"}
    assert said["feasible"] == ["free"]


def test_pre_filters_are_heard_too(plugins):
    said = ask(config=plugins("Picky", "Stubborn"))

    by_node = {
        name: {each["plugin"]: each for each in each_said}
        for name, each_said in said["rejected"].items()
    }
    assert by_node["free"]["Picky"]["reason"] == "node(s) didn't satisfy plugin(s) [Picky]"
    assert "Picky" not in by_node["full"]
    assert {each["Stubborn"]["reason"] for each in by_node.values()} == {"never"}


def test_custom_resources_and_annotations_are_read_from_the_snapshot(plugins):
    gauge = {
        "apiVersion": "example.com/v1",
        "kind": "Gauge",
        "metadata": {"name": "a"},
        "free": 70,
    }
    annotated = node("b")
    annotated["metadata"]["annotations"] = {"free": "20"}

    said = ask(node("a"), annotated, gauge, pod("web"), config=plugins("Loaded"))
    assert said["scores"]["a"]["Loaded"]["raw"] == 70
    assert said["scores"]["b"]["Loaded"]["raw"] == 20

    without = ask(node("a"), pod("web"), config=plugins("Loaded"))
    assert {"kind": "gauges.v1.example.com", "plugins": ["Loaded"]} in without["missing"]


def test_resources_with_an_unusual_plural_are_found(tmp_path, monkeypatch):
    """As NodeMetrics, which metrics-server serves as `nodes`."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "03-load-aware-score"))
    document = (
        f"{HEAD}profiles:\n- plugins: {{score: {{enabled: [{{name: 'load_aware:LoadAware'}}]}}}}"
    )
    metrics = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": "a"},
        "usage": {"cpu": "1"},
    }

    said = ask(node("a"), node("b"), metrics, pod("web"), config=document)

    assert said["scores"]["a"]["LoadAware"]["raw"] == 75
    assert said["scores"]["b"]["LoadAware"]["raw"] == 50
    sys.modules.pop("load_aware")


# Bad input.


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
            "dump: ends in the middle of an object (line 1): it was",
        ),
        ('{"kind": "List",', "dump: ends in the middle of an object (line 1): it was cut off"),
        (
            '{"kind": "List"}\n{"kind" 3}',
            "dump: no JSON: line 2, column 9: Expecting ':' delimiter",
        ),
        ("[" * 5000, "dump: is nested too deeply"),
        ('{"a":' * 99999, "dump: is nested too deeply"),
        ("a: b: c", "dump: neither JSON nor YAML: mapping values are not allowed"),
        ('{"kind": "List", "items": []}', "there is no pod default/web in the snapshot; name its"),
    ],
)
def test_a_bad_snapshot_is_refused_in_one_line(text, says):
    with pytest.raises(ConfigurationError) as caught:
        answer(Question(name="web", snapshots=(("dump", text),)))
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
        ask_new(document)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_namespaces_must_agree():
    document = new()
    document["metadata"]["namespace"] = "there"

    assert ask_new(document, namespace="there")["pod"]["namespace"] == "there"
    with pytest.raises(ConfigurationError, match="the pod's namespace is there, not here"):
        ask_new(document, namespace="here")


def test_extenders_are_said_not_to_have_been_asked():
    document = f"{HEAD}extenders: [{{urlPrefix: 'http://127.0.0.1:9', filterVerb: filter}}]"

    assert "extender http://127.0.0.1:9 was not asked" in ask(config=document)["notes"]


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigurationError, match="there is no profile other; the configuration"):
        ask(profile="other")


# On the command line.


@pytest.fixture
def files(tmp_path):
    (tmp_path / "dump.json").write_text(dump(*CLUSTER)[1])
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(new()))
    return tmp_path


def invoke(*args, **settings):
    return CliRunner().invoke(main, ["explain", *map(str, args)], **settings)


def test_the_table_shows_it_all(files):
    result = invoke("web", "-s", files / "dump.json")

    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "Pod default/web, priority 0" in lines
    assert "Decision Bind: default/web would be bound to free" in lines
    assert any(line.startswith("free * ") and "0 > 100 > 300" in line for line in lines)
    assert "kept TaintToleration no node(s) had untolerated taint(s)" in lines
    assert "NodeResourcesFit no Insufficient cpu" in lines
    assert any(line.startswith("Missing no Service in the snapshot") for line in lines)


def test_the_table_shows_the_ways_to_make_room():
    items = (*(node(name) for name in "abc"), *FULL, running("c1", "c", cpu="4"), URGENT)

    result = invoke("web", "-s", "-", input=dump(*items)[1])

    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    start = lines.index("ROOM ON BUDGETS VIOLATED WOULD EVICT")
    assert sorted(line.replace(" *", "") for line in lines[start + 1 : start + 3]) == [
        "a 0 default/a1",
        "c 0 default/c1",
    ]
    assert " *" in lines[start + 1]
    assert any(line.startswith("Evicts default/") for line in lines)


def replica(name, at="", status=None):
    made = pod(name, at=at)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    made["status"] |= status or {}
    return made


def refused(name, at, when):
    status = {"phase": "Failed", "reason": "OutOfcpu", "startTime": f"2026-01-01T{when}Z"}
    return replica(name, at, status)


def seen_at(when):
    """Return something that dates a dump."""
    at = node("other", cpu="0")
    at["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T{when}Z"}
    ]
    return at


LATELY = "node(s) lately refused a pod of the same owner (OutOfcpu)"
WHY, DAY = "it lately refused a pod of the same owner (OutOfcpu)", "2026-01-01"


def test_a_node_that_lately_refused_a_pod_of_the_same_owner_is_told():
    """Failed pods say when they were refused; the newest time in a dump is the dump's."""
    cluster = (node("n"), refused("web-1", "n", "10:00:00"), replica("web-2"))
    said = ask(*cluster, seen_at("10:00:59"), name="web-2")

    assert said["decision"] == "Park"
    assert said["rejected"]["n"] == [{"plugin": "NodeTrust", "reason": LATELY, "resolvable": False}]
    assert said["notes"] == [
        f"as of {DAY}T10:00:59Z, pods of the same owner go to n not before {DAY}T10:01:00Z: {WHY}"
    ]


def test_a_ban_that_is_over_leaves_a_trial():
    cluster = (node("n"), refused("web-1", "n", "10:00:00"), replica("web-2"))
    said = ask(*cluster, seen_at("10:01:00"), name="web-2")

    assert said["node"] == "n"
    assert said["notes"] == [
        f"as of {DAY}T10:01:00Z, pods of the same owner go to n one at a time: {WHY}"
    ]
    assert ask(*cluster, seen_at("10:12:00"), name="web-2")["notes"] == []


def test_a_node_that_refused_twice_is_avoided_for_longer():
    said = ask(
        node("n"),
        refused("web-2", "n", "10:01:10"),
        refused("web-1", "n", "10:00:00"),
        replica("web-3"),
        seen_at("10:03:09"),
        name="web-3",
    )

    assert said["decision"] == "Park"
    assert "not before 2026-01-01T10:03:10Z" in said["notes"][0]


def test_without_the_plugin_nothing_is_held_against_a_node():
    plugins = "{multiPoint: {disabled: [{name: NodeTrust}]}}"
    config = f"{HEAD}profiles: [{{schedulerName: py-scheduler, plugins: {plugins}}}]"
    cluster = (node("n"), refused("web-1", "n", "10:00:00"), replica("web-2"))
    said = ask(*cluster, name="web-2", config=config)

    assert (said["node"], said["notes"]) == ("n", [])


def test_room_is_kept_for_nominees_of_other_schedulers():
    theirs = pod("theirs", cpu="4", schedulerName="default-scheduler", priority=1)
    theirs["status"]["nominatedNodeName"] = "n"

    assert ask(node("n"), theirs, pod("web"))["decision"] == "Park"


def test_the_table_can_be_shortened(files):
    result = invoke("web", "-s", files / "dump.json", "--limit", "1")

    assert "full" in result.output
    assert "kept" not in result.output
    assert "… and 1 more" in result.output


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_can_be_read_back(files, output, read):
    result = invoke("-f", files / "pod.yaml", "-s", "-", "-o", output, input=dump(*CLUSTER)[1])

    assert read(result.output)["node"] == "free"
    assert list(read(result.output)) == list(ask())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "give either the NAME of a pod or a manifest with -f"),
        (("web", "-f", "x"), "give either the NAME of a pod or a manifest with -f"),
        (("-f", "-", "-s", "-"), "only one file can be read from standard input"),
        (("web", "-s", "x", "--context", "c"), "with --snapshot no API server is asked"),
        (("web", "-s", "nowhere"), "error: --snapshot: cannot read nowhere: No such file"),
        (("shop/web", "-s", "x"), "a name has no slash: write -n shop web"),
    ],
)
def test_mistakes_cost_one_line_and_exit_code_2(args, says):
    result = invoke(*args)

    assert result.exit_code == 2
    assert says in result.output


def test_a_compressed_snapshot_is_named_as_such(tmp_path):
    path = tmp_path / "dump.json.gz"
    path.write_bytes(gzip.compress(dump(*CLUSTER)[1].encode()))

    result = invoke("web", "-s", path)

    assert result.exit_code == 2
    assert "is compressed; unpack it first, as by zcat" in result.output


def test_a_pod_may_be_named_as_kubectl_names_it(files):
    assert invoke("pod/web", "-s", files / "dump.json").exit_code == 0
