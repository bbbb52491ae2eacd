"""The flags, log lines and metrics of a scheduler that tools run."""

from types import SimpleNamespace

import pytest

from hack.processes import Process
from hack.running_scheduler import RunningScheduler


class Plane:
    """A control plane that notes what is started."""

    def __init__(self, log):
        self.log = log
        self.started = []

    def start_py_scheduler(self, *flags, **named):
        self.started.append((flags, named))
        return Process(named["name"], SimpleNamespace(poll=lambda: None), self.log)


@pytest.fixture
def plane(tmp_path):
    return Plane(tmp_path / "log")


def flags_of(plane, *flags, **named):
    scheduler = RunningScheduler(plane, *flags, port=1, **named)
    scheduler.start()
    return plane.started[-1][0]


def test_there_is_no_leader_election_unless_it_is_configured(plane):
    assert flags_of(plane) == ("--insecure-metrics", "--no-leader-elect")
    assert flags_of(plane, "--leader-elect=true") == ("--insecure-metrics", "--leader-elect=true")
    assert flags_of(plane, config={}, secure=True) == ()


def test_a_second_process_has_the_same_port_and_log(plane):
    scheduler = RunningScheduler(plane, port=7)
    scheduler.start()
    scheduler.start()

    assert plane.started[0] == plane.started[1]
    assert plane.started[0][1]["port"] == 7


def test_lines_are_found_by_event_and_fields(plane):
    scheduler = RunningScheduler(plane, port=1).start()
    plane.log.write_text(
        '{"event":"pod.bound","pod":"a"}\nstray\n{"event":"pod.bound","pod":"b"}\n'
    )

    assert scheduler.lines("pod.bound", pod="b") == [{"event": "pod.bound", "pod": "b"}]
    assert len(scheduler.lines()) == 2
    assert scheduler.lines("pod.parked") == []


def test_a_metric_is_the_sum_of_the_series_that_carry_the_labels(plane, monkeypatch):
    scheduler = RunningScheduler(plane, port=1)
    text = 'pods{queue="active",p="x"} 2\npods{queue="active",p="y"} 3\npods{queue="backoff"} 4\n'
    monkeypatch.setattr(scheduler, "get", lambda path: (200, text))

    assert scheduler.metric("pods", queue="active") == 5
    assert scheduler.metric("pods") == 9
    assert scheduler.metric("nodes") == 0
