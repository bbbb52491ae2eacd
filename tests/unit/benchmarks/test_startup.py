"""The benchmark of start-up and relist goes through all of its phases."""

import gc

import pytest

from benchmarks import startup


@pytest.fixture(autouse=True)
def _restore():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


async def test_each_phase_has_a_line(capsys):
    await startup.run(nodes=20, pods=250, changed=30)

    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" MB")]
    assert [line[:34].strip() for line in lines] == [
        "start",
        "relist, all equal",
        "relist, 30 other versions",
        "comparison",
    ]
