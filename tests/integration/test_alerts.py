"""The alerts, told stories: which fire in the end, and which stay silent."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from hack.binaries import MissingBinariesError, ensure
from hack.manifests import objects, template

pytestmark = pytest.mark.integration

ALERTS = Path(__file__).parents[2] / "charts/py-scheduler/files/alerts.yaml"
STORIES = yaml.safe_load((Path(__file__).parents[1] / "alerts/cases.yaml").read_text())
RULES = {
    each["alert"]: each
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    for each in group["rules"]
}


@pytest.fixture(scope="module")
def promtool():
    try:
        path = ensure(["promtool"])["promtool"]
    except MissingBinariesError as error:
        pytest.fail(str(error), pytrace=False)

    def run(*arguments):
        done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def in_promtools_words(story):
    """Describe a story as promtool wants it: its series, and what every alert says in the end."""
    series = [
        {
            "series": name if 'job="' in name else of_our_job(name),
            # To older versions of promtool 0x20 is a number in base sixteen.
            "values": re.sub(r"(?<![+\d])(\d+)x", r"\1+0x", str(values)),
        }
        for name, values in story["series"].items()
    ]
    fires = story.get("fires", {})
    assert fires.keys() <= RULES.keys()
    return {
        "interval": "1m",
        "input_series": series,
        "alert_rule_test": [
            {
                "eval_time": story["lasts"],
                "alertname": name,
                "exp_alerts": [as_fired(name, fires[name])] if name in fires else [],
            }
            for name in RULES
        ],
    }


def of_our_job(series):
    name, _, labels = series.partition("{")
    return f'{name}{{job="py-scheduler",{labels}'


def as_fired(name, labels):
    rule = RULES[name]
    summary = rule["annotations"]["summary"].replace("{{ $value }}", "2")
    for label, value in labels.items():
        summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
    return {
        "exp_labels": rule["labels"] | labels,
        "exp_annotations": rule["annotations"] | {"summary": summary},
    }


def test_each_alert_fires_in_some_story_and_stays_silent_in_a_quiet_one():
    assert {name for story in STORIES.values() for name in story.get("fires", {})} == RULES.keys()
    assert not STORIES["all is well"].get("fires")


def test_alerts_are_rules(promtool):
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(ALERTS))


def test_alerts_tell_the_stories_as_they_are(promtool, tmp_path):
    described = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [in_promtools_words(story) for story in STORIES.values()],
    }
    path = tmp_path / "alerts.yaml"
    path.write_text(yaml.safe_dump(described))

    assert "SUCCESS" in promtool("test", "rules", str(path))


def test_alerts_are_the_same_in_the_chart_but_for_the_job(promtool, tmp_path):
    flags = ["--set", "prometheusRule.enabled=true"]
    found = {each["kind"]: each for each in objects(template(*flags, release="second"))}
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump(found["PrometheusRule"]["spec"]))

    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(path))
    text = yaml.safe_dump(found["PrometheusRule"]["spec"])
    assert 'job="py-scheduler"' not in text
    assert "{{ $labels.reason }}" in text
