"""What is told of changed configurations."""

import pytest

from scheduler.config.change import Outcome, Result
from scheduler.config.run_settings import RunSettings
from scheduler.kube.events import Reference
from scheduler.observe.metrics import Metrics
from scheduler.reload.plan import plan_of
from scheduler.reload.report import Report

NAME = "py_scheduler_configuration_last_reload_successful"
GOOD, BAD = Outcome(Result.UNCHANGED), Outcome(Result.INVALID, ("profiles[0]: no",))


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
    ourselves = Reference(kind="Pod", api_version="v1", name="us", namespace="here")
    running = plan_of(RunSettings()).configuration
    report = Report(metrics, lambda _: None, ourselves, running)

    for source, outcome in judged:
        report.judged(source, outcome)

    assert metrics.registry.get_sample_value(NAME) == good
