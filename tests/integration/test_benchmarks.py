"""The benchmark measures what it says, on a real control plane, in its smallest size."""

import pytest

from benchmarks import workload
from benchmarks.one_run import Measurement, run_once
from benchmarks.schedulers import NULL, OURS, THEIRS

pytestmark = pytest.mark.integration


async def run(name, scheduler, mode):
    found = workload.load(name, "tiny")
    steps = []
    result = await run_once(
        Measurement(found, scheduler, mode, 1), lambda *step: steps.append(step)
    )
    assert ("bound", result.pods) in steps
    return result


@pytest.mark.parametrize("scheduler", [OURS, THEIRS, NULL], ids=lambda each: each.name)
async def test_pods_are_bound_timed_and_rightly_placed(scheduler):
    result = await run("topology-spreading", scheduler, "stream")

    assert result.bound == result.pods == 60
    assert result.problems == []
    assert sum(result.per_second) == 60
    assert result.pods_per_second > 0
    assert 0 <= result.latency.p50 <= result.latency.p99 <= result.latency.highest
    assert set(result.usage) == {"scheduler", "kube-apiserver", "etcd"}
    assert all(used.peak_mb > 0 for used in result.usage.values())


async def test_drained_pods_were_there_before_the_scheduler():
    result = await run("scheduling-basic", OURS, "drain")

    assert (result.bound, result.problems, result.latency) == (60, [], None)
    assert result.start_cpu_seconds > 0


async def test_preemptions_have_the_victims_that_they_need():
    result = await run("preemption-basic", NULL, "stream")

    assert (result.bound, result.victims, result.problems) == (20, 60, [])
