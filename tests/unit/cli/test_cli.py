"""The command line: what it asks for, and what a user sees when something is wrong."""

import json
import logging
import signal
import subprocess
import sys
import time
import types

import pytest
import structlog
from click.testing import CliRunner

import scheduler
from scheduler.cli import main
from scheduler.config.default_plugins import UPSTREAM_POINTS
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ConfigurationError, Forbidden
from scheduler.version import __version__

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

EVERY_FLAG = """
run --kubeconfig /k --context c --master https://m --kube-api-qps 7 --kube-api-burst 8
--bind-address 127.0.0.1 --port 0 --log-level warning --log-format json
--replace-default-scheduler --pod-max-in-unschedulable-pods-duration 1m30s
--leader-elect-lease-duration 20s --leader-elect-renew-deadline 12s
--leader-elect-retry-period 500ms --leader-elect-resource-name n
--leader-elect-resource-namespace ns --leader-elect-resource-lock leases
"""


class App(types.ModuleType):
    """Stands where the application stands, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__("scheduler.app")
        self.settings: RunSettings | None = None
        self.outcome: int | Exception = 0

    def run(self, settings: RunSettings) -> int:
        self.settings = settings
        settings.draft().resolve(
            UPSTREAM_POINTS, replace_default_scheduler=settings.replace_default_scheduler
        )
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def app(monkeypatch):
    app = App()
    monkeypatch.setitem(sys.modules, "scheduler.app", app)
    monkeypatch.setattr(scheduler, "app", app, raising=False)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield app
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def invoke(*args: str, **settings):
    return CliRunner().invoke(main, list(args), **settings)


def test_without_flags_everything_is_default(app):
    result = invoke("run")

    assert (result.exit_code, result.output) == (0, "")
    assert app.settings == RunSettings()


def test_flags_become_settings(app):
    result = invoke(*EVERY_FLAG.split())

    assert result.exit_code == 0, result.output
    assert app.settings == RunSettings(
        kubeconfig="/k",
        context="c",
        master="https://m",
        kube_api_qps=7.0,
        kube_api_burst=8,
        leader_election={
            "lease_duration_seconds": 20.0,
            "renew_deadline_seconds": 12.0,
            "retry_period_seconds": 0.5,
            "resource_lock": "leases",
            "resource_name": "n",
            "resource_namespace": "ns",
        },
        bind_address="127.0.0.1",
        port=0,
        log_level="warning",
        log_format="json",
        replace_default_scheduler=True,
        pod_seconds_unschedulable_maximum=90.0,
    )


@pytest.mark.parametrize(
    ("flags", "leads"),
    [
        (["--leader-elect"], True),
        (["--leader-elect", "--port", "0"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=false"], False),
        (["--no-leader-elect"], False),
    ],
)
def test_leader_election_is_switched_as_upstream_and_as_people_do(app, flags, leads):
    result = invoke("run", *flags)

    assert result.exit_code == 0, result.output
    assert app.settings.leader_election == {"leader_elect": leads}


def test_the_document_is_read(app, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"{HEAD}# ä\n", encoding="utf-8")

    assert invoke("run", "--config", str(path)).exit_code == 0
    assert app.settings.config_text == f"{HEAD}# ä\n"
    assert app.settings.config_path == str(path)
    assert invoke("run", "--config", "-", input=HEAD).exit_code == 0
    assert app.settings.config_text == HEAD


def test_the_exit_code_is_the_applications(app):
    app.outcome = 1

    assert invoke("run").exit_code == 1


def test_each_problem_is_one_line_and_the_exit_code_is_two(app):
    result = invoke("run", "--config", "-", input=f"{HEAD}parallelism: 0\nfoo: 1\n")

    assert result.exit_code == 2
    first, second = result.stderr.splitlines()
    assert first.startswith("error: foo: unknown field;")
    assert second == ("error: parallelism: should be an integer value greater than zero, got 0")


def test_the_default_schedulers_name_needs_consent(app):
    text = f"{HEAD}profiles: [{{schedulerName: default-scheduler}}]"

    refused = invoke("run", "--config", "-", input=text)
    allowed = invoke("run", "--config", "-", "--replace-default-scheduler", input=text)

    assert refused.exit_code == 2
    assert "--replace-default-scheduler" in refused.stderr
    assert allowed.exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("absent", None, "error: --config: cannot read {}: No such file or directory\n"),
        ("latin", b"\xff", "error: --config: {} is no UTF-8 text\n"),
    ],
)
def test_a_document_that_cannot_be_read_is_one_line(app, tmp_path, name, content, expected):
    path = tmp_path / name
    if content:
        path.write_bytes(content)

    result = invoke("run", "--config", str(path))

    assert (result.exit_code, result.stderr) == (2, expected.format(path))


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (ConfigurationError("--port: 1 is in use"), 2, "error: --port: 1 is in use\n"),
        (
            Forbidden("GET /api/v1/nodes\nforbidden", status=403),
            1,
            "error: GET /api/v1/nodes forbidden\nhint: --log-level debug shows where it happened\n",
        ),
        (
            KeyError("x"),
            1,
            "error: KeyError: 'x'\nhint: --log-level debug shows where it happened\n",
        ),
    ],
)
def test_nobody_sees_a_traceback(app, error, code, expected):
    app.outcome = error

    result = invoke("run")

    assert (result.exit_code, result.stderr) == (code, expected)


def test_a_traceback_can_be_requested(app):
    app.outcome = KeyError("x")

    result = invoke("run", "--log-level", "debug")

    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback (most recent call last)")
    assert result.stderr.endswith("error: KeyError: 'x'\n")


@pytest.mark.parametrize(
    "args",
    [
        ["run", "surplus"],
        ["run", "--nope"],
        ["run", "--port", "70000"],
        ["run", "--leader-elect-retry-period", "2"],
        ["nope"],
    ],
)
def test_mistakes_in_flags_are_usage_errors(app, args):
    result = invoke(*args)

    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert app.settings is None


def test_help_is_grouped_and_shows_defaults():
    text = invoke("run", "--help").stdout

    headings = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        "Configuration:",
        "API server:",
        "Leader election (each flag overrides the document):",
        "Health, metrics and configuration:",
        "Logs:",
        "Other:",
    ]
    assert "[default: 10259" in text
    assert "[default: 5m]" in text


def test_the_version_is_printed():
    assert invoke("--version").stdout == f"py-scheduler {__version__}\n"


def test_the_package_can_be_run():
    result = subprocess.run(
        [sys.executable, "-m", "scheduler", "--version"], capture_output=True, text=True, check=True
    )

    assert result.stdout == f"py-scheduler {__version__}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_what_has_not_begun_yet(tmp_path, number):
    """While somebody is asked for credentials; else the first process of a container would stay."""
    asked = tmp_path / "asked"
    call = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", f"touch {asked}; exec sleep 40"],
        "interactiveMode": "Never",
    }
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": call}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "scheduler", "run", "--kubeconfig", str(path), "--port", "0"]
    with subprocess.Popen(command) as process:
        while not asked.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)

        assert process.wait(30) == 0
