"""The log lines of a process."""

from types import SimpleNamespace

from hack.processes import Process


def test_a_line_is_returned_once_it_is_complete(tmp_path):
    log = tmp_path / "log"
    process = Process("one", SimpleNamespace(), log)
    first, second = '{"event":"pod.bound","pod":"a"}', '{"event":"pod.bound","pod":"b"}'

    log.write_text(f"starting\n{first}\n{second[:20]}")
    assert process.lines("pod.bound") == [{"event": "pod.bound", "pod": "a"}]

    log.write_text(f"starting\n{first}\n{second}\n")
    assert [line["pod"] for line in process.lines("pod.bound")] == ["a", "b"]
