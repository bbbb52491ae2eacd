"""The chart on a real API server: what it renders is accepted, what it grants is just enough."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from hack import manifests
from hack.api import request_text
from hack.kubeconfig import read_kubeconfig
from hack.manifests import CHART, helm, objects, template
from scheduler.checkup import Mark, check, rules
from scheduler.config import document
from scheduler.config.run_settings import RunSettings
from scheduler.kube.permissions import lease_permissions, resource_permissions
from tests.integration.world import OURS, World, scheduler_process, until

pytestmark = pytest.mark.integration

RICH = Path(__file__).with_name("rich-values.yaml")
MONITORING = {"ServiceMonitor": "servicemonitors", "PodMonitor": "podmonitors"}
MONITORING["PrometheusRule"] = "prometheusrules"
LEASE = lease_permissions("kube-system", OURS)
RULES = [each.rule for each in (*rules(RunSettings()), *LEASE)]


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
        ("config.leaderElection.leaseDuration=long", "leaseDuration"),
        ("config.leaderElection.leaseSeconds=15", "leaseSeconds"),
        ("config.clientConnection.qps=fast", "qps"),
        ("config.podMaxBackoff=20", "podMaxBackoff"),
        ("config.podInitialBackoffSeconds=-1", "podInitialBackoffSeconds"),
        ("config.percentageOfNodesToScore=101", "percentageOfNodesToScore"),
        ("config.profiles[0].name=second", "name"),
        ("config.profiles[0].pluginConfig[0].arguments=none", "arguments"),
        ("podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
        ("podDisruptionBudget.maxUnavailable=0%", "maxUnavailable"),
        ("serviceAccount.name=Some Body", "serviceAccount/name"),
        ("commonLabels.app\\.kubernetes\\.io/name=other", "commonLabels"),
        ("podLabels.app\\.kubernetes\\.io/instance=other", "podLabels"),
        ("logLevel=loud", "logLevel"),
        ("resources.requests.cpu=much", "cpu"),
        ("serviceMonitor.interval=often", "interval"),
        ("tls.enabled=1", "tls/enabled"),
        ("tls.secretName=Not a name", "secretName"),
        ("rbac.metricsReaders[0].kind=Robot", "metricsReaders"),
        ("flowSchema.matchingPrecedence=1", "matchingPrecedence"),
        ("flowSchema.priorityLevel=Work Load", "priorityLevel"),
        ("flowSchema.limits.lendablePercent=101", "lendablePercent"),
        ("podMonitor.enabled=true", "podMonitor.tokenSecret.name: over HTTPS"),
        ("config.leaderElection.leaderElect=false", "replicas: more than one needs"),
        ("configResource.name=Main", "name"),
        ("configResource.crd.keep=perhaps", "keep"),
    ],
)
def test_bad_values_are_refused_by_name(value, said):
    with pytest.raises(RuntimeError, match=said):
        template("--set", value)


def test_rich_values_arrive_where_they_belong():
    every = objects(template("--no-hooks", "--values", RICH))
    found = {each["kind"]: each for each in every}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert container["image"].startswith("registry.example.com/py-scheduler@sha256:0123")
    assert {"--port=10300", "--bind-address=::", "--log-level=debug"} <= set(container["args"])
    assert found["Role"]["rules"][1]["resourceNames"] == ["second-lease"]
    everywhere, metrics = [each for each in every if each["kind"] == "ClusterRole"]
    assert everywhere["rules"][-1]["apiGroups"] == ["metrics.k8s.io"]
    assert metrics["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert found["RoleBinding"]["subjects"][0]["name"] == "somebody"
    assert set(MONITORING) <= set(found)
    assert {"--tls-cert-file=/etc/py-scheduler-tls/tls.crt"} <= set(container["args"])
    assert {"name": "tls", "secret": {"secretName": "serving"}} in pod["volumes"]
    (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]["ca"]["secret"]["name"]) == (
        "https",
        "serving",
    )
    assert 'job="second"' in yaml.safe_dump(found["PrometheusRule"])
    assert 'job="py-scheduler"' not in yaml.safe_dump(found["PrometheusRule"])


def properties(schema, struct):
    """Compare what a part of the schema knows with a part of the document; return the former."""
    assert schema["additionalProperties"] is False
    fields = {field.encode_name for field in msgspec.structs.fields(struct)}
    assert schema["properties"].keys() == fields
    return schema["properties"]


def test_the_schema_knows_the_fields_of_the_configuration_and_no_others():
    """What is misspelt is refused by helm, and not by pods that do not come up."""
    whole = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]
    fields = properties(whole, document.KubeSchedulerConfiguration)
    properties(fields["leaderElection"], document.LeaderElection)
    properties(fields["clientConnection"], document.ClientConnection)
    profile = properties(fields["profiles"]["items"], document.KubeSchedulerProfile)
    properties(profile["pluginConfig"]["items"], document.PluginConfig)


def test_another_configuration_is_another_pod():
    def checksum(*flags):
        (deployment,) = [each for each in objects(template(*flags)) if each["kind"] == "Deployment"]
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum("--set", "replicas=5")
    assert checksum() != checksum("--set", "config.podMaxBackoffSeconds=20")


def test_a_single_replica_needs_neither_lease_nor_budget():
    flags = ["--set", "replicas=1", "--set", "config.leaderElection.leaderElect=false"]
    found = {each["kind"]: each for each in objects(template(*flags))}

    assert not found.keys() & {"Role", "RoleBinding", "PodDisruptionBudget", "Lease"}
    # An upgrade must not run two of them for a while.
    assert found["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def test_replicas_that_hold_a_lease_are_exchanged_one_after_the_other():
    found = {each["kind"]: each for each in objects(template())}

    assert found["Deployment"]["spec"]["strategy"]["type"] == "RollingUpdate"
    # One that does not come up must not keep a node from being drained.
    assert found["PodDisruptionBudget"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_the_check_runs_where_the_scheduler_may():
    every = objects(template("--values", RICH))
    (test,) = [each["spec"] for each in every if each["kind"] == "Pod"]
    (deployment,) = [each for each in every if each["kind"] == "Deployment"]
    run = deployment["spec"]["template"]["spec"]

    for field in ("nodeSelector", "tolerations", "affinity", "serviceAccountName"):
        assert test[field] == run[field]
    assert test["containers"][0]["resources"] == run["containers"][0]["resources"]


def test_lease_in_another_namespace_is_not_created_by_the_chart():
    """Taking over kube-scheduler's lease must not make it part of the release."""
    flag = "config.leaderElection.resourceName=kube-scheduler"

    assert "Lease" in {each["kind"] for each in objects(template())}
    assert "Lease" not in {each["kind"] for each in objects(template("--set", flag))}


def test_plain_http_needs_no_reviews():
    found = objects(template("--set", "tls.enabled=false"))
    kinds = {each["kind"]: each for each in found}
    (container,) = kinds["Deployment"]["spec"]["template"]["spec"]["containers"]

    assert "--insecure-metrics" in container["args"]
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTP"
    assert "--insecure-metrics" in kinds["Pod"]["spec"]["containers"][0]["args"]
    needed = [each.rule for each in rules(RunSettings(insecure_metrics=True))]
    assert kinds["ClusterRole"]["rules"] == needed


def test_requests_are_limited_apart_from_others():
    def flows(*flags):
        every = objects(template("--no-hooks", *flags, namespace="ours"))
        return {
            (each["kind"], each["metadata"]["name"]): each["spec"]
            for each in every
            if each["apiVersion"].startswith("flowcontrol.")
        }

    found = flows()
    schema, lease = found["FlowSchema", OURS], found["FlowSchema", f"{OURS}-lease"]
    assert schema["priorityLevelConfiguration"]["name"] == OURS
    assert found["PriorityLevelConfiguration", OURS]["type"] == "Limited"
    assert lease["priorityLevelConfiguration"]["name"] == "leader-election"
    assert lease["matchingPrecedence"] < schema["matchingPrecedence"]
    assert lease["rules"][0]["subjects"] == schema["rules"][0]["subjects"]
    assert lease["rules"][0]["resourceRules"][0]["namespaces"] == ["ours"]

    existing = flows("--set", "flowSchema.priorityLevel=workload-high")
    assert existing.keys() == found.keys() - {("PriorityLevelConfiguration", OURS)}
    assert existing["FlowSchema", OURS]["priorityLevelConfiguration"]["name"] == "workload-high"
    alone = ["--set", "replicas=1", "--set", "config.leaderElection.leaderElect=false"]
    assert flows(*alone).keys() == found.keys() - {("FlowSchema", f"{OURS}-lease")}
    assert not flows("--set", "flowSchema.enabled=false")


def test_the_rate_limit_suits_a_large_cluster():
    """And one of the two can be set alone."""

    def connection(*flags):
        (config,) = [each for each in objects(template(*flags)) if each["kind"] == "ConfigMap"]
        return yaml.safe_load(config["data"]["config.yaml"])["clientConnection"]

    assert connection() == {"qps": 1000, "burst": 2000}
    assert connection("--set", "config.clientConnection.qps=200") == {"qps": 200, "burst": 2000}


def test_roles_are_what_is_needed_and_nothing_else():
    found = {each["kind"]: each for each in objects(template("--no-hooks"))}

    assert [*found["ClusterRole"]["rules"], *found["Role"]["rules"]] == RULES


def test_the_resource_comes_with_its_name_alone():
    named = ["--set", "configResource.name=main"]

    def kinds(*flags):
        return {each["kind"]: each for each in objects(template("--no-hooks", *flags))}

    assert "CustomResourceDefinition" not in kinds()
    without = [*named, "--set", "configResource.crd.create=false"]
    assert "CustomResourceDefinition" not in kinds(*without)
    found = kinds(*named, "--set", "configResource.crd.keep=true")
    crd = found["CustomResourceDefinition"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--config-resource=main" in container["args"]
    assert "profiles" not in yaml.safe_load(found["ConfigMap"]["data"]["config.yaml"])
    wanted = [each.rule for each in resource_permissions("main")]
    assert all(rule in found["ClusterRole"]["rules"] for rule in wanted)


@pytest.mark.parametrize(
    ("folder", "flags"), manifests.FOLDERS.items(), ids=["default", "config-resource"]
)
def test_deploy_is_what_the_chart_renders(control_plane, folder, flags):
    there = {path.name: path.read_text() for path in folder.glob("*.yaml")}
    assert there == manifests.files(*flags), "run: make manifests"
    built = objects(control_plane.kubectl("kustomize", str(folder)))
    rendered = objects(template("--no-hooks", *flags))

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


def test_an_upgrade_may_do_without_the_lease(control_plane, namespace):
    """However it is applied: what one strategy says is refused beside the other."""
    alone = ["--set", "replicas=1", "--set", "config.leaderElection.leaderElect=false"]

    def apply(*how, flags=()):
        found = objects(template(*flags, namespace=namespace))
        (deployment,) = [each for each in found if each["kind"] == "Deployment"]
        text = yaml.safe_dump(deployment)
        control_plane.kubectl("apply", "-n", namespace, "-f", "-", *how, stdin=text)
        return control_plane.request("GET", path)["spec"]["strategy"]

    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/py-scheduler"
    for how in ([], ["--server-side"]):
        assert apply(*how)["type"] == "RollingUpdate"
        assert apply(*how, flags=alone) == {"type": "Recreate"}
        control_plane.request("DELETE", path)


@pytest.mark.parametrize("values", [[], ["--values", RICH]], ids=["default", "rich"])
def test_pods_meet_the_restricted_standard(control_plane, namespace, values):
    """The strictest of the Pod Security Standards, enforced where they run."""
    control_plane.kubectl(
        "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    found = objects(template(*values, release=namespace, namespace=namespace))
    (test,) = [each for each in found if each["kind"] == "Pod"]
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    run = {**test, "spec": deployment["spec"]["template"]["spec"], "metadata": {"name": "run"}}
    account = {"metadata": {"name": test["spec"]["serviceAccountName"]}}
    where = f"/api/v1/namespaces/{namespace}"
    control_plane.request("POST", f"{where}/serviceaccounts", account)

    for pod in (test, run):
        control_plane.request("POST", f"{where}/pods?dryRun=All", pod)


@pytest.fixture
def installed(control_plane, namespace, tmp_path):
    """The chart's account, roles and configuration; return a kubeconfig and the configuration."""
    name = f"chart-{namespace}"
    profiles = json.dumps([{"schedulerName": name}])
    flags = ["--set-json", f"config.profiles={profiles}", "--set", f"fullnameOverride={name}"]
    chosen = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    chosen |= {"FlowSchema", "PriorityLevelConfiguration"}
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
        dispatched = dispatched_requests(control_plane)
        assert dispatched[name, name] > 10
        assert dispatched[f"{name}-lease", "leader-election"] > 0


def dispatched_requests(control_plane):
    """Return what the API server dispatched, by FlowSchema and priority level."""
    _, text = request_text(read_kubeconfig(control_plane.admin_kubeconfig), "GET", "/metrics")
    series = r'flowcontrol_dispatched_requests_total{flow_schema="(.+)",priority_level="(.+)"} (.+)'
    return {(schema, level): float(count) for schema, level, count in re.findall(series, text)}


def test_check_passes_with_what_the_chart_grants(installed):
    _, kubeconfig, path = installed
    settings = RunSettings(
        config_path=str(path), config_text=path.read_text(), kubeconfig=str(kubeconfig)
    )

    def all_well():
        return all(each.mark is Mark.OK for each in check(settings))

    until(all_well, "the roles are known to the API server")
