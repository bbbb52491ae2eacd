"""What a process is heard to say."""

from types import SimpleNamespace

from hack.processes import Process


def test_a_line_that_is_being_written_is_told_once_it_is_whole(tmp_path):
    log = tmp_path / "log"
    process = Process("one", SimpleNamespace(), log)
    first, second = '{"event":"pod.bound","pod":"a"}', '{"event":"pod.bound","pod":"b"}'

    log.write_text(f"starting\n{first}\n{second[:20]}")
    assert process.told("pod.bound") == [{"event": "pod.bound", "pod": "a"}]

    log.write_text(f"starting\n{first}\n{second}\n")
    assert [line["pod"] for line in process.told("pod.bound")] == ["a", "b"]
