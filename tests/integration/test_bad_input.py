"""What is wrong is said in one clear line, never in a traceback; what can go on, goes on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from hack.api import ApiError
from hack.kubeconfig import token_credentials, write_kubeconfig
from hack.nodes import node
from hack.ports import LOOPBACK, PortClaims
from tests.integration.proxy import Proxy, Rule, write_plain_kubeconfig
from tests.integration.world import (
    ROOT,
    configuration,
    profile,
    scheduler_process,
    until,
)

pytestmark = pytest.mark.integration


def refusal(*flags):
    """Start a scheduler that cannot start; return its exit code and the lines of its complaint."""
    command = [sys.executable, "-m", "scheduler", "run", "--port", "0", *map(str, flags)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in ended.stderr
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    return ended.returncode, said


# Configuration


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"profiless": []}, "profiless: "),
        ({"profiles": [{"shedulerName": "x"}]}, "profiles[0].shedulerName: "),
        ({"podMaxBackoffSeconds": "soon"}, "podMaxBackoffSeconds: "),
        ({"podInitialBackoffSeconds": -1}, "podInitialBackoffSeconds: "),
        ({"clientConnection": {"qps": "fast"}}, "clientConnection.qps: "),
        ({"leaderElection": {"leaseDuration": "long"}}, "leaderElection.leaseDuration: "),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta1"}, "apiVersion: "),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nonesuch"}]}}}]},
            "profiles[0].plugins.filter",
        ),
        (
            {
                "profiles": [
                    profile("x", NodeResourcesFit={"scoringStrategy": {"type": "Sometimes"}})
                ]
            },
            "profiles[0].pluginConfig[0].args.scoringStrategy.type: ",
        ),
        ({"profiles": [{"schedulerName": "default-scheduler"}]}, "profiles[0].schedulerName: "),
    ],
    ids=lambda value: value.rstrip(": ") if isinstance(value, str) else "",
)
def test_document_that_cannot_be_used_names_the_field(control_plane, tmp_path, fields, problem):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**configuration(), **fields}))

    code, said = refusal("--config", path, "--kubeconfig", control_plane.admin_kubeconfig)
    assert code == 2
    (line,) = said
    assert line.startswith(f"error: {problem}")


def test_every_problem_is_named_at_once(control_plane, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**configuration(), "podMaxBackoffSeconds": "x", "nonsense": 1}))

    code, said = refusal("--config", path, "--kubeconfig", control_plane.admin_kubeconfig)
    assert code == 2
    assert sorted(line.split(":")[1].strip() for line in said) == [
        "nonsense",
        "podMaxBackoffSeconds",
    ]


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "error: "), ("", "error: "), ("[]", "error: ")]
)
def test_document_that_is_none_is_said_so(tmp_path, text, problem):
    path = tmp_path / "config.yaml"
    path.write_text(text)

    code, said = refusal("--config", path)
    assert code == 2
    (line,) = said
    assert line.startswith(problem)


def test_missing_file_names_its_flag(tmp_path):
    code, said = refusal("--config", tmp_path / "none.yaml")
    assert (code, len(said)) == (2, 1)
    assert said[0].startswith("error: --config: ")


def test_unknown_flag_is_refused():
    code, said = refusal("--no-such-flag")
    assert code == 2
    assert "--no-such-flag" in said[-1]


# Credentials


@pytest.mark.parametrize("text", [None, "not: a kubeconfig", "{", "current-context: none"], ids=str)
def test_unusable_kubeconfig_is_named(tmp_path, text):
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)

    code, said = refusal("--kubeconfig", path)
    assert code == 2
    (line,) = said
    assert line.startswith("error: ")
    assert str(path) in line


def test_credentials_that_are_not_accepted_are_said_so_once(control_plane, tmp_path):
    """A token may be renewed in its place, so the process stays, and says what keeps it out."""
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig",
        control_plane.url,
        control_plane.files.authority.read_bytes(),
        token_credentials("nonsense"),
    )
    with scheduler_process(
        control_plane, "--log-level", "info", kubeconfig=kubeconfig, ready=False
    ) as scheduler:
        line = scheduler.expect_line("watch.refused", resource="Pod")
        assert "401 Unauthorized" in line["error"]
        assert scheduler.get("/readyz")[0] == 500
        # It goes on trying, and does not repeat itself.
        until(lambda: scheduler.metric("rest_client_requests_total", code="401") >= 20)
        assert len(scheduler.lines("watch.refused", resource="Pod")) == 1
        assert scheduler.process.running


def test_expired_credentials_are_read_again(control_plane, tmp_path, world):
    """A token that was replaced in the same file is taken up without a restart."""
    world.nodes("a")
    path = tmp_path / "kubeconfig"
    authority = control_plane.files.authority.read_bytes()
    write_kubeconfig(path, control_plane.url, authority, token_credentials("expired"))
    config = configuration(profiles=[profile("renewed")])
    with scheduler_process(control_plane, kubeconfig=path, config=config, ready=False) as scheduler:
        scheduler.expect_line("watch.refused", resource="Node")
        good = control_plane.service_account_kubeconfig("kube-system", "py-scheduler")
        path.write_bytes(good.read_bytes())
        world.expect_scheduled(world.pod(scheduler="renewed"), on="a")


# Reachability


def test_unreachable_apiserver_is_said_and_awaited(control_plane, tmp_path, world):
    """One line for each thing that is waited for, however often it is tried; then all is well."""
    world.nodes("a")
    claims = PortClaims()
    port = claims.claim()
    kubeconfig = write_plain_kubeconfig(tmp_path, port)
    config = configuration(profiles=[profile("patient")])
    with scheduler_process(
        control_plane, kubeconfig=kubeconfig, config=config, ready=False
    ) as scheduler:
        line = scheduler.expect_line("watch.restarted", resource="Node")
        assert line["error"].startswith(
            f"{LOOPBACK}:{port} gave no answer to WATCH /api/v1/nodes: "
        )
        until(lambda: scheduler.metric("py_scheduler_watch_restarts_total", resource="Node") >= 3)
        assert len(scheduler.lines("watch.restarted", resource="Node")) == 1
        assert scheduler.get("/livez")[0] == 200
        assert scheduler.get("/readyz")[0] == 500
        with Proxy(control_plane, port=port):
            world.expect_scheduled(world.pod(scheduler="patient"), on="a")
            scheduler.stop()
    claims.release()


def test_port_in_use_names_its_flag(control_plane, scheduler):
    code, said = refusal(
        *("--kubeconfig", control_plane.admin_kubeconfig, "--no-leader-elect"),
        *("--bind-address", LOOPBACK, "--port", scheduler.port),
    )
    assert code == 2
    (line,) = said
    assert line.startswith(f"error: --port: {scheduler.port} is in use")


# Permissions


ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
}


@pytest.fixture
def limited(control_plane, namespace):
    """Return a function that makes a user who may do what *rules* say."""
    name = f"{namespace}-limited"
    root = "/apis/rbac.authorization.k8s.io/v1"

    def grant(*rules):
        described = [
            {"apiGroups": [group], "resources": list(resources), "verbs": ["*"]}
            for group, resources in (*rules, *STORAGE, BUDGETS)
        ]
        role = {**ROLE, "metadata": {"name": name}, "rules": described}
        try:
            control_plane.request("POST", f"{root}/clusterroles", role)
        except ApiError:
            control_plane.request("PUT", f"{root}/clusterroles/{name}", role)
        return control_plane.kubeconfig_for(name)

    control_plane.request(
        "POST",
        f"{root}/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        },
    )
    yield grant
    control_plane.kubectl("delete", "clusterrole,clusterrolebinding", name)


PODS = ("", ["pods", "pods/binding", "pods/status"])
NODES = ("", ["nodes", "namespaces"])
CORE = ("", ["services", "replicationcontrollers"])
BUDGETS = ("policy", ["poddisruptionbudgets"])
APPS = ("apps", ["replicasets", "statefulsets"])
EVENTS = ("events.k8s.io", ["events"])
# Nobody can do without: a pod must not be bound where its volumes are not.
STORAGE = (
    ("", ["persistentvolumeclaims", "persistentvolumes"]),
    (
        "storage.k8s.io",
        [
            *("storageclasses", "csinodes", "csidrivers"),
            *("csistoragecapacities", "volumeattachments"),
        ],
    ),
)


def test_missing_permission_for_services_is_said_and_lived_with(control_plane, limited, world):
    world.nodes("a")
    kubeconfig = limited(PODS, NODES, APPS, EVENTS, ("", ["replicationcontrollers"]))
    config = configuration(profiles=[profile("limited")])
    with scheduler_process(control_plane, kubeconfig=kubeconfig, config=config) as scheduler:
        world.expect_scheduled(world.pod(scheduler="limited"), on="a")
        (line,) = scheduler.lines("watch.refused")
        assert line["resource"] == "Service"
        assert f'User "{world.namespace}-limited" cannot' in line["error"]
        assert 'resource "services"' in line["error"]


def test_missing_permission_for_pods_is_said_once_and_awaited(control_plane, limited, world):
    world.nodes("a")
    kubeconfig = limited(NODES, CORE, APPS, EVENTS)
    config = configuration(profiles=[profile("limited")])
    with scheduler_process(
        control_plane, kubeconfig=kubeconfig, config=config, ready=False
    ) as scheduler:
        line = scheduler.expect_line("watch.refused", resource="Pod")
        assert 'cannot watch resource "pods"' in line["error"]
        assert line["level"] == "error"
        until(lambda: scheduler.metric("rest_client_requests_total", code="403") >= 6)
        assert len(scheduler.lines("watch.refused", resource="Pod")) == 1

        limited(PODS, NODES, CORE, APPS, EVENTS)
        world.expect_scheduled(world.pod(scheduler="limited"), on="a")


def test_missing_permission_to_bind_is_in_the_pods_condition(control_plane, limited, world):
    world.nodes("a")
    watching = ("", ["pods", "pods/status"])
    kubeconfig = limited(watching, NODES, CORE, APPS, EVENTS)
    config = configuration(profiles=[profile("limited")])
    with scheduler_process(control_plane, kubeconfig=kubeconfig, config=config) as scheduler:
        pod = world.pod(scheduler="limited")
        line = scheduler.expect_line("pod.retried")
        assert 'cannot create resource "pods/binding"' in line["error"]
        (event,) = until(lambda: world.events(pod, "FailedScheduling"))
        assert 'cannot create resource "pods/binding"' in event["note"]

        limited(PODS, NODES, CORE, APPS, EVENTS)
        world.expect_scheduled(pod, on="a")


def test_missing_permission_for_events_and_status_delays_no_binding(control_plane, limited, world):
    world.nodes("a", cpu="2")
    kubeconfig = limited(("", ["pods", "pods/binding"]), NODES, CORE, APPS)
    config = configuration(profiles=[profile("limited")])
    with scheduler_process(control_plane, kubeconfig=kubeconfig, config=config) as scheduler:
        world.expect_scheduled(world.pod(cpu="2", scheduler="limited"), on="a")
        world.pod("waiting", cpu="1", scheduler="limited")
        line = scheduler.expect_line("pod_status.failed")
        assert 'cannot patch resource "pods/status"' in line["error"]
        until(lambda: scheduler.metric("py_scheduler_events_dropped_total") >= 1)


# Objects


def test_apiserver_itself_refuses_what_cannot_be_read(world):
    """So the next tests have to forge such objects on their way to the scheduler."""
    broken = node("broken", kwok=False)
    broken["status"]["allocatable"] = {"cpu": "lots"}
    with pytest.raises(ApiError, match="quantities must match"):
        world.post_node(broken)
    selector = {"matchExpressions": [{"key": "app", "operator": "Resembles", "values": ["x"]}]}
    with pytest.raises(ApiError, match=r"not a valid (label )?selector operator"):
        world.pod(topologySpreadConstraints=[constraint(selector)])


def constraint(selector):
    return {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }


def forge(resource, name, change):
    """Return a rule that changes the object *name* on its way to the scheduler."""

    def rewrite(found):
        if found["metadata"]["name"] == name:
            change(found)

    return Rule("GET", f"/{resource}.*watch=1", rewrite=rewrite)


def test_unreadable_node_is_closed_and_the_others_go_on(control_plane, proxy, world):
    world.nodes("broken", "good", cpu="2")

    def change(found):
        found["status"]["allocatable"]["cpu"] = "lots"

    proxy.add(forge("nodes", "broken", change))
    config = configuration(profiles=[profile("careful")])
    with scheduler_process(control_plane, kubeconfig=proxy.kubeconfig, config=config) as scheduler:
        world.expect_scheduled(world.pod(cpu="2", scheduler="careful"), on="good")
        (line,) = scheduler.lines("object.malformed")
        assert (line["resource"], line["object"]) == ("Node", "broken")
        assert "status.allocatable" in line["problem"]
        assert "lots" in line["problem"]
        world.expect_unschedulable(
            world.pod(cpu="2", scheduler="careful"),
            "0/2 nodes are available: 1 Insufficient cpu, "
            "1 node(s) could not be read: status.allocatable[cpu]: "
            "'lots' is not a quantity such as '500m', '2' or '1Gi'.",
        )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            lambda spec: spec["topologySpreadConstraints"][0]["labelSelector"].update(
                matchExpressions=[{"key": "app", "operator": "Resembles"}]
            ),
            "spec.topologySpreadConstraints[0].labelSelector",
        ),
        (
            lambda spec: spec["containers"][0]["resources"]["requests"].update(cpu="lots"),
            "spec.containers[0].resources.requests[cpu]",
        ),
    ],
    ids=["selector", "quantity"],
)
def test_unreadable_pending_pod_has_the_reason_in_its_condition(
    control_plane, proxy, world, change, field
):
    world.nodes("a")
    proxy.add(forge("pods", "broken", lambda pod: change(pod["spec"])))
    config = configuration(profiles=[profile("careful")])
    with scheduler_process(control_plane, kubeconfig=proxy.kubeconfig, config=config) as scheduler:
        spread = {"topologySpreadConstraints": [constraint({"matchLabels": {"app": "web"}})]}
        world.pod("broken", scheduler="careful", **spread)
        line = scheduler.expect_line("object.malformed", resource="Pod")
        assert line["object"] == f"{world.namespace}/broken"
        assert line["problem"].startswith(field)

        def condition():
            found = world.read("broken")["status"].get("conditions", [])
            return [each for each in found if each["type"] == "PodScheduled"]

        (told,) = until(condition)
        assert (told["status"], told["reason"]) == ("False", "SchedulerError")
        assert told["message"].startswith(f"the pod cannot be read: {field}")
        world.expect_scheduled(world.pod(scheduler="careful"), on="a")


def test_unreadable_bound_pod_closes_its_node(control_plane, proxy, world):
    """Nobody knows how much room it takes, so nothing is put beside it."""
    world.nodes("a")
    world.pod("broken", nodeName="a", scheduler="somebody")

    def change(pod):
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"

    proxy.add(forge("pods", "broken", change))
    config = configuration(profiles=[profile("careful")])
    with scheduler_process(control_plane, kubeconfig=proxy.kubeconfig, config=config):
        pod = world.pod(scheduler="careful")
        (event,) = until(lambda: world.events(pod, "FailedScheduling"))
        assert f"{world.namespace}/broken" in event["note"]
        world.nodes("b")
        world.expect_scheduled(pod, on="b")


def test_pod_that_is_nested_too_deeply_counts_like_any_other(control_plane, world, tmp_path):
    """The API server lets everybody write ten thousand levels, which no decoder follows."""
    world.nodes("a", cpu="2")
    fields = '{"f:a":' * 5_000 + "{}" + "}" * 5_000
    described = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "deep",
            "managedFields": [
                {
                    "manager": "anybody",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": "deep",
                }
            ],
        },
        "spec": {
            "nodeName": "a",
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}},
            ],
        },
    }
    written = tmp_path / "deep.json"
    written.write_text(json.dumps(described).replace('"fieldsV1": "deep"', f'"fieldsV1": {fields}'))
    path = f"/api/v1/namespaces/{world.namespace}/pods"
    control_plane.kubectl("create", "--raw", path, "-f", str(written))
    try:
        config = configuration(profiles=[profile("deep")])
        with scheduler_process(control_plane, config=config) as scheduler:
            pod = world.pod(cpu="1", scheduler="deep")
            (event,) = until(lambda: world.events(pod, "FailedScheduling"))
            assert "1 Insufficient cpu" in event["note"]
            assert not scheduler.lines("object.malformed")
    finally:
        # At once, since the tests' own decoder does not follow either.
        control_plane.kubectl("delete", "--raw", f"{path}/deep?gracePeriodSeconds=0")


def test_log_is_json_line_by_line(scheduler):
    """Whatever is logged can be read by a machine, from the first line on."""
    lines = scheduler.log.splitlines()
    assert lines
    for line in lines:
        assert {"time", "level", "event"} <= json.loads(line).keys()
