"""What is logged, counted and recorded about changed configurations."""

import pytest

from scheduler.config.change import Outcome, Result
from scheduler.config.run_settings import RunSettings
from scheduler.kube.events import Reference
from scheduler.observe.metrics import Metrics
from scheduler.reload.plan import plan_of
from scheduler.reload.report import Report

NAME = "py_scheduler_configuration_last_reload_successful"
GOOD, BAD = Outcome(Result.UNCHANGED), Outcome(Result.INVALID, ("profiles[0]: no",))


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def report_of(metrics, text=None):
    this_pod = Reference(kind="Pod", api_version="v1", name="us", namespace="here")
    settings = RunSettings(config_text=text)
    return Report(metrics, lambda _: None, this_pod, plan_of(settings).configuration)


def test_all_fields_without_meaning_are_named_in_one_warning(capsys):
    written = "parallelism: 4\nenableProfiling: false\nclientConnection: {contentType: x}"

    report_of(Metrics(), f"{HEAD}{written}\n")

    (warning,) = (
        line for line in capsys.readouterr().out.splitlines() if "configuration.ignored" in line
    )
    for field in ("parallelism", "enableProfiling", "clientConnection.contentType"):
        assert field in warning


@pytest.mark.parametrize(
    ("judged", "good"),
    [
        ([], 1),
        ([("resource", BAD)], 0),
        ([("resource", BAD), ("resource", GOOD)], 1),
        ([("resource", BAD), ("file", GOOD)], 0),
        ([("file", BAD), ("resource", GOOD)], 0),
        ([("file", BAD), ("resource", BAD), ("file", GOOD), ("resource", GOOD)], 1),
    ],
)
def test_what_was_refused_stays_refused_until_its_own_source_is_good_again(judged, good):
    metrics = Metrics()
    report = report_of(metrics)

    for source, outcome in judged:
        report.judged(source, outcome)

    assert metrics.registry.get_sample_value(NAME) == good


def test_a_source_whose_watch_a_defect_ended_is_not_good_until_its_next_outcome(capsys):
    metrics = Metrics()
    report = report_of(metrics)
    report.judged("resource", GOOD)

    report.watch_failed("resource", LookupError("a defect"), 30.0)

    assert metrics.registry.get_sample_value(NAME) == 0
    said = capsys.readouterr().out
    assert "configuration.unfollowed" in said
    assert "LookupError('a defect')" in said
    report.judged("resource", GOOD)
    assert metrics.registry.get_sample_value(NAME) == 1


def test_a_refusal_is_reported_again_if_a_deleted_source_comes_back(capsys):
    metrics = Metrics()
    report = report_of(metrics)
    later = Outcome(Result.FORBIDDEN, ("no",))
    report.judged("file", BAD)
    report.judged("resource", later)

    report.forget("resource")

    assert metrics.registry.get_sample_value(NAME) == 0
    report.judged("file", GOOD)
    assert metrics.registry.get_sample_value(NAME) == 1
    capsys.readouterr()
    report.judged("resource", later)
    assert metrics.registry.get_sample_value(NAME) == 0
    assert "configuration.refused" in capsys.readouterr().out
