"""What an operator does to it: watch it, change it, kill it, and take it away."""

from __future__ import annotations

import pytest

from hack.api import MERGE_PATCH, NotFoundError
from hack.manifests import objects, template
from tests.e2e.cluster import (
    NAMESPACE,
    READER,
    VALUES,
    ask,
    inventory,
    leader,
    token_of,
    until,
)

pytestmark = pytest.mark.integration

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/py-scheduler"
KIND = {"apiVersion": "py-scheduler.dev/v1alpha1", "kind": "SchedulerConfiguration"}
FOLLOWED = "/apis/py-scheduler.dev/v1alpha1/schedulerconfigurations/main"
# What no scenario brings about, and why it is granted nevertheless. That none of it can be spared
# is shown by tests/integration/test_permissions.py.
ONLY_SOMETIMES = {
    "get pods": "a binding whose answer was lost is read back",
    "list *": "an API server without streaming lists is asked for them, as 1.33 is by default; and"
    " everybody for nodes and pods, to compare the cache with",
}


def names(grants):
    return {f"{verb} {resource}" for _, resource, verb in grants}


def test_it_may_do_what_it_has_to(cluster):
    table = cluster.check()

    assert "FAILED" not in table, table
    assert "may create tokenreviews.authentication.k8s.io " in table


def test_metrics_are_for_whom_they_are_meant(cluster, team):
    replica = leader(cluster)
    reader, other = token_of(cluster, READER), token_of(cluster, "default", team.name)

    assert replica.get("/livez") == (200, "ok")
    assert replica.get("/metrics")[0] == 403
    assert replica.get("/metrics", other)[0] == 403
    assert replica.get("/metrics", "nonsense")[0] == 401
    assert replica.get("/configz", reader)[0] == 403
    status, text = replica.get("/metrics", reader)
    assert status == 200
    for name in ("scheduler_pending_pods", "process_cpu_seconds_total"):
        assert f"\n{name}" in text


def test_metrics_follow_the_pods(cluster, team):
    token = token_of(cluster, READER)

    def scheduled():
        found = [
            float(line.rpartition(" ")[2])
            for line in leader(cluster).get("/metrics", token)[1].splitlines()
            if line.startswith("scheduler_schedule_attempts_total{")
            and 'result="scheduled"' in line
        ]
        return sum(found)

    before = scheduled()
    team.expect_scheduled(*team.pods(3))
    until(lambda: scheduled() == before + 3, "three more are counted")


def test_another_takes_over_from_a_killed_leader(cluster, team):
    before = leader(cluster)
    pods = team.pods(4)
    cluster.kill(before)
    pods += team.pods(8)

    team.expect_scheduled(*pods)
    assert leader(cluster).name != before.name
    until(lambda: len(cluster.replicas()) == 2, "two run again")


def test_deleted_lease_is_made_anew(cluster, team):
    leader(cluster)
    old = ask(cluster, "DELETE", LEASE)

    def anew():
        try:
            found = ask(cluster, "GET", LEASE)
        except NotFoundError:
            return False
        return found["metadata"]["uid"] != old["details"]["uid"]

    until(anew, "there is another one")
    team.expect_scheduled(team.pod())


def test_upgrade_brings_a_profile_and_loses_no_pod(cluster, team):
    gated = team.pod(schedulingGates=[{"name": "example.com/later"}])
    batch = team.pod(scheduler="batch")

    profiles = [{"schedulerName": "py-scheduler"}, {"schedulerName": "batch"}]
    cluster.upgrade({"config": {"profiles": profiles}})
    team.expect_scheduled(batch)
    team.ungate(gated)
    team.expect_scheduled(gated)


def test_bad_configuration_is_refused_and_disturbs_no_pod(cluster, team):
    # Each of the two may be, and helm lets them pass.
    backoffs = {"podInitialBackoffSeconds": 20, "podMaxBackoffSeconds": 10}
    said = cluster.refuse({"config": backoffs})

    assert "podMaxBackoffSeconds" in said
    assert "Traceback" not in said
    team.expect_scheduled(team.pod())


@pytest.mark.last(1)
def test_configuration_can_be_an_object_and_change_at_any_time(cluster, team):
    """A profile comes without a restart, a mistake is refused in the status and harms nobody."""

    def document(*names, **fields):
        profiles = [{"schedulerName": name} for name in names]
        kind = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        return {"spec": {"configuration": {**kind, "profiles": profiles, **fields}}}

    def change(*names, **fields):
        body = document(*names, **fields)
        found = ask(cluster, "PATCH", FOLLOWED, body, content_type=MERGE_PATCH)
        return found["metadata"]["generation"]

    def considered(generation):
        def status():
            found = ask(cluster, "GET", FOLLOWED).get("status", {})
            return found if found.get("observedGeneration") == generation else None

        found = until(status, f"generation {generation} is considered")
        return {each["type"]: each["status"] for each in found["conditions"]}

    def create():
        metadata = {"metadata": {"name": FOLLOWED.rpartition("/")[2]}}
        until(
            lambda: _posted(cluster, {**KIND, **metadata, **document("py-scheduler")}), "it is made"
        )

    cluster.upgrade({"configResource": {"name": FOLLOWED.rpartition("/")[2]}}, then=create)
    before = {each.name for each in cluster.replicas()}
    team.expect_scheduled(team.pod())
    live = team.pod(scheduler="live")

    assert considered(change("py-scheduler", "live")) == {"Valid": "True", "Active": "True"}
    team.expect_scheduled(live)
    assert considered(change("live", podInitialBackoffSeconds=-1))["Valid"] == "False"
    team.expect_scheduled(team.pod())
    assert {each.name for each in cluster.replicas()} == before
    assert "FAILED" not in cluster.check()


def _posted(cluster, body):
    """Create the object; a new resource is not served at once."""
    try:
        ask(cluster, "POST", FOLLOWED.rpartition("/")[0], body)
    except NotFoundError:
        return False
    return True


@pytest.mark.only("kind")
def test_prometheus_scrapes_every_replica(cluster):
    def up():
        return [each for each in cluster.scraped() if each["value"][1] == "1"]

    until(lambda: len(up()) == 2, "both replicas are up", seconds=120)


@pytest.mark.only("local")
@pytest.mark.last(2)
def test_every_grant_was_used(cluster):
    """What is granted and was used by no scenario is named, with its reason."""
    used = cluster.used()
    follow = f"configResource.name={FOLLOWED.rpartition('/')[2]}"
    found = objects(template("--no-hooks", "--values", VALUES, "--set", follow))
    rules = [
        rule
        for each in found
        if each["kind"] in {"ClusterRole", "Role"}
        for rule in each["rules"]
        if "resources" in rule
    ]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    unused = {
        each
        for each in names(granted - used)
        if each not in ONLY_SOMETIMES and f"{each.partition(' ')[0]} *" not in ONLY_SOMETIMES
    }

    assert not unused, f"no scenario used them (all of tests/e2e has to run): {unused}"


@pytest.mark.last(3)
def test_uninstalling_leaves_nothing_behind(cluster, found_before):
    """With the object that it follows, too."""
    assert ask(cluster, "GET", FOLLOWED)
    cluster.uninstall()

    def left():
        return {each for each in inventory(cluster) - found_before if "/team-" not in each}

    until(lambda: not left(), f"nothing is left of {left()}")
