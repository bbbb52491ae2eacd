"""The chart on a real API server: what it renders is accepted, what it grants is just enough."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path

import pytest
import yaml

from hack import manifests
from hack.manifests import CHART, DEPLOY, helm, objects, template
from scheduler.checkup import Mark, check, rules
from scheduler.config.run_settings import RunSettings
from scheduler.kube.permissions import lease_permissions
from tests.integration.world import OURS, World, scheduler_process, until

pytestmark = pytest.mark.integration

RICH = Path(__file__).with_name("rich-values.yaml")
MONITORING = {"ServiceMonitor": "servicemonitors", "PodMonitor": "podmonitors"}
MONITORING["PrometheusRule"] = "prometheusrules"
LEASE = lease_permissions("kube-system", OURS)
RULES = [each.rule for each in (*rules(RunSettings()), *LEASE)]

_numbers = itertools.count(1)


def custom_resource(kind, plural):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def monitoring(control_plane):
    """Just enough of the Prometheus operator for its objects to be accepted."""
    documents = [custom_resource(kind, plural) for kind, plural in MONITORING.items()]
    text = yaml.safe_dump_all(documents)
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    names = [f"crd/{each['metadata']['name']}" for each in documents]
    control_plane.kubectl("wait", "--for=condition=Established", *names)
    yield
    control_plane.kubectl("delete", "--wait=false", *names)


# Rendering.


@pytest.mark.parametrize("values", [[], ["--values", RICH]], ids=["default", "rich"])
def test_chart_passes_lint(values):
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *values)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("replicas=many", "replicas"),
        ("replicas=-1", "replicas"),
        ("replica=2", "replica"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("image.digest=sha256:short", "digest"),
        ("port=80", "port"),
        ("config.kind=ConfigMap", "kind"),
        ("config.leaderElection.leaderElect=perhaps", "leaderElect"),
        ("logLevel=loud", "logLevel"),
        ("resources.requests.cpu=much", "cpu"),
        ("serviceMonitor.interval=often", "interval"),
        ("config.leaderElection.leaderElect=false", "replicas: more than one needs"),
    ],
)
def test_bad_values_are_refused_by_name(value, said):
    with pytest.raises(RuntimeError, match=said):
        template("--set", value)


def test_rich_values_arrive_where_they_belong():
    found = {each["kind"]: each for each in objects(template("--no-hooks", "--values", RICH))}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert container["image"].startswith("registry.example.com/py-scheduler@sha256:0123")
    assert {"--port=10300", "--bind-address=::", "--log-level=debug"} <= set(container["args"])
    assert found["Role"]["rules"][1]["resourceNames"] == ["second-lease"]
    assert found["ClusterRole"]["rules"][-1]["apiGroups"] == ["metrics.k8s.io"]
    assert found["RoleBinding"]["subjects"][0]["name"] == "somebody"
    assert set(MONITORING) <= set(found)
    assert 'job="second"' in yaml.safe_dump(found["PrometheusRule"])
    assert 'job="py-scheduler"' not in yaml.safe_dump(found["PrometheusRule"])


def test_another_configuration_is_another_pod():
    def checksum(*flags):
        (deployment,) = [each for each in objects(template(*flags)) if each["kind"] == "Deployment"]
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum("--set", "replicas=5")
    assert checksum() != checksum("--set", "config.podMaxBackoffSeconds=20")


def test_a_single_replica_needs_neither_lease_nor_budget():
    flags = ["--set", "replicas=1", "--set", "config.leaderElection.leaderElect=false"]
    kinds = {each["kind"] for each in objects(template(*flags))}

    assert not kinds & {"Role", "RoleBinding", "PodDisruptionBudget"}


def test_roles_are_what_is_needed_and_nothing_else():
    found = {each["kind"]: each for each in objects(template("--no-hooks"))}

    assert [*found["ClusterRole"]["rules"], *found["Role"]["rules"]] == RULES


def test_deploy_is_what_the_chart_renders(control_plane):
    assert {path.name: path.read_text() for path in DEPLOY.glob("*.yaml")} == manifests.files(), (
        "run: make manifests"
    )
    built = objects(control_plane.kubectl("kustomize", str(DEPLOY)))
    rendered = objects(template("--no-hooks"))

    assert {(each["kind"], each["metadata"]["name"]) for each in built} == {
        (each["kind"], each["metadata"]["name"]) for each in rendered
    }


# On the API server.


@pytest.mark.parametrize("values", [[], ["--values", RICH]], ids=["default", "rich"])
def test_every_object_is_accepted(control_plane, namespace, monitoring, values):
    text = template(*values, release=namespace, namespace=namespace)
    for each in objects(text):
        if each["kind"] == "ServiceAccount":
            # The pod of `helm test` is refused without it, and a dry run leaves nothing.
            control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(each))
    said = control_plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)

    assert len(said.splitlines()) == len(objects(text))


@pytest.fixture
def installed(control_plane, namespace, tmp_path):
    """The chart's account, roles and configuration; return a kubeconfig and the configuration."""
    name = f"chart-{namespace}"
    profiles = json.dumps([{"schedulerName": name}])
    flags = ["--set-json", f"config.profiles={profiles}", "--set", f"fullnameOverride={name}"]
    chosen = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    found = objects(template("--no-hooks", *flags, release=name, namespace=namespace))
    text = yaml.safe_dump_all([each for each in found if each["kind"] in chosen])
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    (config,) = [each for each in found if each["kind"] == "ConfigMap"]
    path = tmp_path / "config.yaml"
    path.write_text(config["data"]["config.yaml"])
    yield name, control_plane.service_account_kubeconfig(namespace, name), path
    control_plane.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


def test_scheduler_lives_on_what_the_chart_grants(control_plane, world, installed):
    """Lease, watches, condition, binding and events, under the chart's account alone."""
    name, kubeconfig, path = installed
    config = yaml.safe_load(path.read_text())
    with scheduler_process(control_plane, kubeconfig=kubeconfig, config=config) as started:
        started.expect_line("lease.acquired")
        mine = World(control_plane, world.namespace, started)
        big = mine.pod(cpu="3", scheduler=name)
        mine.expect_unschedulable(big, "no nodes available to schedule pods")
        mine.nodes("a", cpu="4")
        assert mine.expect_scheduled(big) == "a"
        until(lambda: mine.events(big, "Scheduled"), "it was told")
        assert started.metric("rest_client_requests_total", code="403") == 0
        assert not started.lines("watch.refused")


def test_check_passes_with_what_the_chart_grants(installed):
    _, kubeconfig, path = installed
    settings = RunSettings(
        config_path=str(path), config_text=path.read_text(), kubeconfig=str(kubeconfig)
    )

    def all_well():
        return all(each.mark is Mark.OK for each in check(settings))

    until(all_well, "the roles are known to the API server")


@contextlib.contextmanager
def account(plane, granted):
    """A service account that may do what *granted* says, rules of a Role last; its kubeconfig."""
    name = f"incomplete-{next(_numbers)}"
    plane.request(
        "POST", "/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": name}}
    )
    api = "/apis/rbac.authorization.k8s.io/v1"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    role = {"metadata": {"name": name}, "rules": granted}
    bound = {
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": name,
        },
        "subjects": [subject],
    }
    plane.request("POST", f"{api}/clusterroles", role)
    plane.request("POST", f"{api}/clusterrolebindings", bound)
    try:
        yield plane.service_account_kubeconfig("kube-system", name)
    finally:
        plane.request("DELETE", f"{api}/clusterrolebindings/{name}")
        plane.request("DELETE", f"{api}/clusterroles/{name}")


def called(rule):
    return f"{rule['resources'][0]}-{'-'.join(rule['verbs'])}"


@pytest.mark.parametrize("number", range(len(RULES)), ids=[called(rule) for rule in RULES])
def test_check_notices_any_rule_that_is_gone(control_plane, number):
    rest = [rule for index, rule in enumerate(RULES) if index != number]
    with account(control_plane, rest) as kubeconfig:
        settings = RunSettings(kubeconfig=str(kubeconfig))

        def only_failure():
            failed = [each for each in check(settings) if each.mark is Mark.FAILED]
            return failed if len(failed) == 1 else None

        (found,) = until(only_failure, "one row fails")
        gone = RULES[number]
        assert found.what.startswith(f"may {','.join(gone['verbs'])} {gone['resources'][0]}")
        assert f"missing: {','.join(gone['verbs'])}" in found.said


def test_scheduler_notices_reads_that_are_gone(control_plane):
    """Each rule that reads is needed by a running scheduler, not by the list of rules alone."""
    read = [rule for rule in RULES if "watch" in rule["verbs"]]
    with (
        account(control_plane, []) as kubeconfig,
        scheduler_process(control_plane, kubeconfig=kubeconfig, ready=False) as started,
    ):
        plurals = {rule["resources"][0] for rule in read}

        def refused():
            said = " ".join(json.dumps(line) for line in started.lines("watch.refused"))
            return all(plural in said for plural in plurals)

        until(refused, f"refusals of {plurals}")
        assert not started.ready()


@pytest.mark.parametrize("gone", ["pods/binding", "pods/status", "events"])
def test_scheduler_notices_writes_that_are_gone(control_plane, world, gone):
    name = f"no-{gone.replace('/', '-')}"
    rest = [rule for rule in RULES if rule["resources"] != [gone]]
    config = {"profiles": [{"schedulerName": name}], "leaderElection": {"leaderElect": False}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    with (
        account(control_plane, rest) as kubeconfig,
        scheduler_process(control_plane, kubeconfig=kubeconfig, config=head | config) as started,
    ):
        mine = World(control_plane, world.namespace, started)
        mine.nodes("a", cpu="1")
        fits, waits = mine.pod(cpu="1", scheduler=name), mine.pod(cpu="9", scheduler=name)
        until(lambda: started.metric("rest_client_requests_total", code="403"), "a refusal")
        if gone == "pods/binding":
            assert not mine.node_of(fits)
        else:
            mine.expect_scheduled(fits)
        assert not mine.node_of(waits)
