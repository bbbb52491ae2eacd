"""Permissions follow from plugins, and a check says what is missing."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hack.rbac import RULES, written
from scheduler.checkup import (
    NEWEST_MINOR,
    OLDEST_MINOR,
    Finding,
    Mark,
    judge_permission,
    judge_resource,
    judge_version,
    passed,
    rules,
    table,
)
from scheduler.cli import main
from scheduler.config.run_settings import RunSettings
from scheduler.kube.permissions import (
    Permission,
    cluster_permissions,
    lease_permissions,
    review_permissions,
)
from scheduler.out_of_tree.loading import build_profiles

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PODS = Permission("", "v1", "pods", ("get", "list"), "Why.")


class NeedsMetrics:
    name = "NeedsMetrics"
    needs = frozenset({"nodes.v1beta1.metrics.k8s.io"})

    def filter(self, pod, nodes):
        return ()


class Labels:
    name = "Labels"
    patches = frozenset({"nodes.v1beta1.metrics.k8s.io", "Node"})

    def pre_bind(self, pod, node, nodes):
        return ()


class MakesRoom:
    name = "MakesRoom"

    def post_filter(self, pod, nodes, diagnosis, ask): ...


def granted(*profiles):
    return {each.kubectl_name: set(each.verbs) for each in cluster_permissions(profiles)}


@pytest.fixture
def default():
    (profile,) = build_profiles(RunSettings().draft())[1].values()
    return profile


def test_rules_of_the_chart_are_what_the_default_plugins_need():
    assert RULES.read_text() == written(), "run: make manifests"


def test_one_rule_for_each_resource_and_no_wildcard(default):
    permissions = cluster_permissions([default, replace(default, scheduler_name="another")])

    assert len({(each.group, each.resource) for each in permissions}) == len(permissions)
    assert "*" not in yaml.safe_dump([each.rule for each in permissions])


def test_what_a_plugin_needs_may_be_read(default):
    more = replace(default, filter=(*default.filter, NeedsMetrics()))

    assert granted(more) == granted(default) | {"nodes.metrics.k8s.io": {"list", "watch"}}


def test_what_no_plugin_needs_may_not_be_read(default):
    bare = granted(replace(default, filter=(), pre_filter=(), score=()))

    assert "statefulsets.apps" not in bare
    assert "namespaces" not in bare


def test_what_a_plugin_patches_may_be_patched(default):
    more = granted(replace(default, pre_bind=(*default.pre_bind, Labels())))

    assert more["nodes.metrics.k8s.io"] == {"patch"}
    assert more["nodes"] == {"list", "watch", "patch"}


def test_pods_may_be_deleted_where_room_is_made_alone(default):
    assert "delete" not in granted(replace(default, post_filter=()))["pods"]
    assert "delete" in granted(replace(default, post_filter=(MakesRoom(),)))["pods"]


def test_lease_is_granted_by_name_except_for_its_creation():
    create, hold = (each.rule for each in lease_permissions("there", "mine"))

    assert (create["verbs"], "resourceNames" in create) == (["create"], False)
    assert (hold["verbs"], hold["resourceNames"]) == (["get", "update", "watch"], ["mine"])


@pytest.mark.parametrize(
    ("minor", "mark"),
    [
        (str(OLDEST_MINOR - 1), Mark.FAILED),
        (str(OLDEST_MINOR), Mark.OK),
        (f"{OLDEST_MINOR}+", Mark.OK),
        (str(NEWEST_MINOR), Mark.OK),
        (str(NEWEST_MINOR + 1), Mark.WARNING),
        ("", Mark.FAILED),
    ],
)
def test_versions_are_judged(minor, mark):
    assert judge_version({"major": "1", "minor": minor, "gitVersion": "v"}).mark is mark


@pytest.mark.parametrize(
    ("needed", "offered", "mark"),
    [
        (PODS, {("", "v1", "pods")}, Mark.OK),
        (PODS, {("", "v2", "pods")}, Mark.FAILED),
        (replace(PODS, optional=True), set(), Mark.WARNING),
    ],
)
def test_resources_are_judged(needed, offered, mark):
    assert judge_resource(needed, offered).mark is mark


def test_missing_verbs_are_named():
    found = judge_permission(PODS, ("get",))

    assert found == Finding("may get,list pods", Mark.FAILED, "missing: list. Why.")
    assert judge_permission(PODS, ("get", "list")).mark is Mark.OK


def test_one_failure_fails_and_a_warning_does_not():
    rows = [Finding("a", Mark.OK, ""), Finding("long", Mark.WARNING, "said")]

    assert passed(rows)
    assert not passed([*rows, Finding("c", Mark.FAILED, "")])
    assert table(rows) == "a     ok\nlong  warning  said\n"


def test_rules_are_printed_without_a_request():
    result = CliRunner().invoke(main, ["check", "--rules"])

    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.output) == [each.rule for each in rules(RunSettings())]


def test_serving_plain_http_needs_no_reviews():
    asks = [each.rule for each in review_permissions()]
    plain = rules(RunSettings(insecure_metrics=True))

    assert [each.rule for each in rules(RunSettings())] == [*(each.rule for each in plain), *asks]
    assert rules(RunSettings(port=0)) == plain
    result = CliRunner().invoke(main, ["check", "--rules", "--insecure-metrics"])
    assert yaml.safe_load(result.output) == [each.rule for each in plain]


def test_mistakes_of_the_operator_end_with_2(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}podInitialBackoffSeconds: -1\n")
    runner = CliRunner()

    assert runner.invoke(main, ["check", "--config", str(path)]).exit_code == 2
    assert runner.invoke(main, ["check", "--kubeconfig", "/nowhere"]).exit_code == 2


def test_what_run_would_refuse_is_refused(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}profiles: [{{schedulerName: default-scheduler}}]\n")
    runner = CliRunner()

    refused = runner.invoke(main, ["check", "--rules", "--config", str(path)])
    assert refused.exit_code == 2
    assert "profiles[0].schedulerName: default-scheduler belongs to" in refused.output
    meant = ["check", "--rules", "--config", str(path), "--replace-default-scheduler"]
    assert runner.invoke(main, meant).exit_code == 0


def test_a_certificate_of_an_extender_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}extenders: [{{urlPrefix: a, tlsConfig: {{caFile: /no/such}}}}]\n")

    result = CliRunner().invoke(main, ["check", "--config", str(path)])

    assert result.exit_code == 2
    assert "extenders[0].tlsConfig: cannot be used: " in result.output


def test_a_server_that_does_not_answer_ends_with_1(tmp_path):
    result = CliRunner().invoke(
        main, ["check", "--master", "http://127.0.0.1:1"], env=_no(tmp_path)
    )

    assert result.exit_code == 1, result.output
    assert "connection  FAILED" in result.output


def _no(tmp_path):
    path = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return {"KUBECONFIG": str(path)}


# What the image installs is what tests ran with.


def _pins(name):
    text = (ROOT / name).read_text()
    return set(re.findall(r"^([\w.-]+==[^\s;]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["constraints-runtime.txt", "constraints-build.txt"])
def test_what_the_image_installs_is_what_tests_ran_with(name):
    pins, every = _pins(name), (ROOT / "constraints.txt").read_text()

    assert pins
    assert pins <= _pins("constraints.txt")
    for digest in re.findall(r"sha256:[0-9a-f]{64}", (ROOT / name).read_text()):
        assert digest in every


def test_every_dependency_is_in_the_image():
    project = (ROOT / "pyproject.toml").read_text()
    dependencies = project.partition("\ndependencies = [")[2].partition("\n]")[0]
    wanted = set(re.findall(r'^    "([\w-]+)', dependencies, re.MULTILINE))

    assert {pin.partition("==")[0] for pin in _pins("constraints-runtime.txt")} >= wanted


# The chart, as far as it can be looked at without rendering it.


def test_every_value_is_explained():
    lines = (ROOT / "charts/py-scheduler/values.yaml").read_text().splitlines()
    sections = {"image", "serviceAccount", "rbac", "livenessProbe", "readinessProbe"}
    sections |= {"podDisruptionBudget", "service", "networkPolicy", "serviceMonitor", "podMonitor"}
    sections |= {"prometheusRule", "grafanaDashboard", "flowSchema", "configResource", "tls"}
    unexplained = [
        line
        for before, line in pairwise(lines)
        if re.match(r"(  )?[a-zA-Z]+:", line) and not before.lstrip().startswith("#")
    ]

    assert [line for line in unexplained if line[0] != " " and line[:-1] not in sections] == []
    inside = [line for line in unexplained if line[0] == " "]
    # What Kubernetes explains, and the head of the configuration.
    kubernetes = {"requests", "limits", "capabilities", "seccompProfile", "profiles"}
    kubernetes |= {
        "apiVersion",
        "kind",
        "leaderElection",
        "clientConnection",
        "labels",
        "runAsUser",
        "runAsGroup",
    }
    kubernetes |= {"runAsNonRoot", "fsGroup", "privileged", "readOnlyRootFilesystem"}
    kubernetes |= {"allowPrivilegeEscalation", "tokenSecret"}
    assert {line.strip().partition(":")[0] for line in inside} <= kubernetes
