"""What is read from a real kube-scheduler: its log, as it writes it."""

from __future__ import annotations

from hack.fidelity.score_log import ScoreLog

HEAD = "I1121 10:00:00.000000    4242 schedule_one.go"


def scored(pod, plugin, node, score):
    said = f'pod="default/{pod}" plugin="{plugin}" node="{node}" score={score}'
    return f'{HEAD}:982] "Plugin scored node for pod" {said}\n'


def summed(pod, node, score):
    said = f'pod="default/{pod}" node="{node}" score={score}'
    return f'{HEAD}:1050] "Calculated node\'s final score for pod" {said}\n'


def test_scores_are_read_by_plugin_and_node(tmp_path):
    path = tmp_path / "log"
    path.write_text(
        "I1121 something else\n"
        + scored("p", "TaintToleration", "a", 300)
        + scored("p", "TaintToleration", "b", 0)
        + scored("other", "TaintToleration", "a", 1)
        + summed("p", "a", 412)
    )

    said = ScoreLog(path).of("default", "p")

    assert said.weighted == {"TaintToleration": {"a": 300, "b": 0}}
    assert said.totals == {"a": 412}


def test_the_log_is_read_on_where_it_ended_even_within_a_line(tmp_path):
    path = tmp_path / "log"
    line = scored("p", "ImageLocality", "a", 7)
    path.write_text(line[:60])
    log = ScoreLog(path)
    assert not log.of("default", "p").weighted

    with path.open("a") as more:
        more.write(line[60:])

    assert log.of("default", "p").weighted == {"ImageLocality": {"a": 7}}
    assert not log.of("default", "p").weighted, "what was told is forgotten"
