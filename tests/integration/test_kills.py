"""kill -9 while room is made: another process goes on, and nobody goes or is bound in vain.

``make kills`` does it fifty times.
"""

from __future__ import annotations

import pytest

from hack.kills import kill

pytestmark = pytest.mark.integration

KILLS = 6


async def test_a_killed_scheduler_loses_and_evicts_no_pod_in_vain():
    result = await kill(KILLS, seed=3)

    assert result.problems == []
    assert (result.kills, result.bound, result.victims) == (
        KILLS,
        3 * KILLS,
        result.needed,
    )
