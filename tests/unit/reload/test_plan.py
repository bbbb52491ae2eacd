"""What a changed configuration means, before anything is done about it."""

import json

import pytest

from scheduler.config.change import Outcome, Result
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ConfigurationError
from scheduler.reload.plan import (
    Plan,
    Source,
    further_permissions,
    plan,
    plan_of,
    refusal,
)

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
FEW = {
    "multiPoint": {
        "disabled": [{"name": "*"}],
        "enabled": [{"name": name} for name in ("PrioritySort", "NodeName", "DefaultBinder")],
    }
}


def text(**fields):
    return json.dumps(HEAD | fields)


def started(resource="", **fields):
    """Return settings of a process, and what it started with."""
    settings = RunSettings(config_text=text(**fields), config_resource=resource)
    return settings, plan_of(settings)


def file(settings, running, **fields):
    return plan(settings, running, text(**fields), Source.FILE)


def resource(settings, running, **fields):
    return plan(settings, running, text(**fields), Source.RESOURCE)


def test_another_profile_is_a_plan_of_a_later_generation():
    settings, running = started()

    found = file(settings, running, profiles=[{"schedulerName": "other"}])

    assert isinstance(found, Plan)
    assert found.configuration.names == ("other",)
    assert found.generation == 1
    assert found.profiles["other"].generation == 1


def test_the_same_document_in_other_words_is_no_change():
    settings, running = started()

    found = file(settings, running, podMaxBackoffSeconds=10, parallelism=16)

    assert found.result is Result.UNCHANGED
    assert found.fingerprint == running.configuration.fingerprint


def test_every_problem_names_its_field():
    settings, running = started()

    found = file(settings, running, podInitialBackoffSeconds=0, profiles=[{"plugin": {}}])

    assert found.result is Result.INVALID
    fields = [problem.partition(":")[0] for problem in found.problems]
    assert fields == ["profiles[0].plugin", "podInitialBackoffSeconds"]
    assert found.profiles == ("py-scheduler",)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"leaderElection": {"leaseDuration": "20s"}}, "leaderElection.leaseDuration"),
        ({"leaderElection": {"leaderElect": False}}, "leaderElection.leaderElect"),
        ({"clientConnection": {"burst": 3}}, "clientConnection.burst"),
        ({"delayCacheUntilActive": True}, "delayCacheUntilActive"),
    ],
)
@pytest.mark.parametrize("where", [file, resource])
def test_what_needs_a_restart_is_refused_as_a_whole(fields, path, where):
    settings, running = started("main" if where is resource else "")

    found = where(settings, running, profiles=[{"schedulerName": "other"}], **fields)

    assert found.result is Result.NEEDS_RESTART
    (problem,) = found.problems
    assert problem.startswith(f"{path}: needs a restart: ")


def test_a_file_that_no_longer_says_what_counted_at_the_start_needs_a_restart():
    settings, running = started(clientConnection={"qps": 9})

    assert file(settings, running).result is Result.NEEDS_RESTART


def test_an_object_need_not_repeat_what_counted_at_the_start():
    settings, running = started("main", clientConnection={"qps": 9})

    found = resource(settings, running, profiles=[{}], leaderElection={"leaderElect": True})

    assert isinstance(found, Plan)
    assert found.configuration.client_connection.qps == 9


def test_flags_count_as_before():
    settings = RunSettings(config_text=text(), leader_election={"resource_name": "mine"})
    running = plan_of(settings)

    found = file(settings, running, podMaxBackoffSeconds=60)

    assert found.configuration.leader_election.resource_name == "mine"


def test_no_pod_is_scheduled_until_there_is_an_object():
    settings, running = started("main")

    assert running.configuration.names == ()
    assert list(running.profiles) == [""]
    assert isinstance(resource(settings, running), Plan)


def test_beside_an_object_the_file_holds_only_what_needs_a_restart():
    with pytest.raises(ConfigurationError, match="profiles: is set by the object"):
        started("main", profiles=[{}])

    settings, running = started("main")
    assert file(settings, running, extenders=[]).result is Result.INVALID
    assert file(settings, running, clientConnection={"qps": 9}).result is Result.NEEDS_RESTART
    assert file(settings, running, parallelism=3).result is Result.UNCHANGED


def test_plugins_whose_rules_raise_are_refused_beforehand(monkeypatch, tmp_path):
    (tmp_path / "moody_sort.py").write_text(
        "class Moody:\n"
        "    name = 'Moody'\n"
        "    def sort_key(self, pod):\n"
        "        raise ValueError('not today')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    settings, running = started()
    plugins = {
        "queueSort": {"enabled": [{"name": "moody_sort:Moody"}], "disabled": [{"name": "*"}]}
    }

    found = file(settings, running, profiles=[{"plugins": plugins}])

    assert found.result is Result.INVALID
    assert "ValueError" in found.message
    assert "not today" in found.message


def test_a_plugin_that_ends_the_process_when_it_is_imported_is_refused(monkeypatch, tmp_path):
    (tmp_path / "gives_up.py").write_text("raise SystemExit('goodbye')\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings, running = started()
    plugins = {"filter": {"enabled": [{"name": "gives_up:Plugin"}]}}

    found = file(settings, running, profiles=[{"plugins": plugins}])

    assert found.result is Result.INVALID
    assert found.message.startswith(
        "plugin gives_up:Plugin: importing module gives_up raised SystemExit: goodbye"
    )


def test_only_further_permissions_are_reviewed():
    settings, few = started(profiles=[{"plugins": FEW}])
    more = file(settings, few)

    further = {each.kubectl_name: each.verbs for each in further_permissions(few, more)}

    assert further["pods"] == ("delete",)
    assert further["persistentvolumeclaims"] == ("list", "patch", "watch")
    assert "nodes" not in further
    assert further_permissions(more, few) == ()


def test_a_missing_permission_is_reported_with_its_remedy():
    settings, few = started(profiles=[{"plugins": FEW}])
    (pods,) = [e for e in further_permissions(few, file(settings, few)) if e.kubectl_name == "pods"]

    assert refusal(pods, ("delete",)) == ""
    said = refusal(pods, ())
    assert said.startswith("the scheduler's account may not delete pods. ")
    assert "Victims of preemption are deleted" in said
    assert "py-scheduler check --rules" in said


@pytest.mark.parametrize(
    ("extenders", "kept"),
    [
        ([], []),
        ([{"urlPrefix": "http://127.0.0.1", "nodeCacheCapable": True}], ["Pod"]),
        ([{"urlPrefix": "http://127.0.0.1"}], ["Node", "Pod"]),
    ],
)
def test_objects_are_kept_as_they_came_only_where_an_extender_is_sent_them(extenders, kept):
    settings, running = started(extenders=extenders)
    swapped = file(settings, running, extenders=extenders, podMaxBackoffSeconds=60)

    for each in (running, swapped):
        assert sorted(watched.resource for watched in each.watched if watched.raw) == kept


def test_an_extender_that_wants_whole_objects_changes_what_is_watched():
    settings, running = started()

    found = file(settings, running, extenders=[{"urlPrefix": "http://127.0.0.1"}])

    raw = [each.resource for each in found.watched if each.raw]
    assert sorted(raw) == ["Node", "Pod"]


def test_an_outcome_is_good_or_has_problems():
    assert Outcome(Result.APPLIED).good
    assert not Outcome(Result.INVALID, ("a: b", "c: d")).good
    assert Outcome(Result.INVALID, ("a: b", "c: d")).message == "a: b; c: d"
