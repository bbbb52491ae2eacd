"""The short form of ``make hostile``: small objects, and ratios instead of times."""

import asyncio
import json

import pytest

from hack.hostile import judge
from hack.hostile.churn import Kept, churn, churned_pod, kept_problems
from hack.hostile.inside import Cluster, CpuTimeLoop
from hack.hostile.kind import FULL_BYTES, Where
from hack.hostile.kinds import KINDS
from hack.hostile.live import OURS, THEIRS, Side, course_problem, side_problems
from hack.hostile.measure import Cost, Settings, json_bytes, measure, plain_node
from hack.hostile.tables import caches, entries, grown
from scheduler.model import quantity
from scheduler.model.quantity import nanos
from scheduler.plugins import IN_TREE

SHORT = Settings(nodes=20, objects=2, size=4000, probes=3)
COST = Cost(
    kind="terms",
    bytes=1000,
    plain=0.001,
    beside=0.001,
    arrival_step=0.0,
    beside_step=0.0,
    step_of="ControlLoop.run",
    own=0.0,
    pods=10,
    done=5,
    parked=5,
    condition="",
    grown=0,
    kept=0,
)


def run(main):
    with asyncio.Runner(loop_factory=CpuTimeLoop) as runner:
        return runner.run(main)


# What is hostile.


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_two_objects_share_an_item_and_each_is_as_large_as_asked(kind):
    first, second, third = (
        [json.dumps(each) for each in kind.objects(1, 8000, n)] for n in range(3)
    )

    assert len({*first, *second, *third}) == len(first + second + third)
    if kind.crowd == 1 and "int64" not in kind.name:
        assert 3000 < json_bytes(json.loads(first[0])) < 10000


def test_kinds_have_names_of_their_own():
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_a_crowd_has_its_whole_number_in_full_size_only():
    many = [kind for kind in KINDS if kind.crowd > 1]

    for kind in many:
        assert sum(1 for _ in kind.objects(2, FULL_BYTES)) == 2 * kind.crowd
        assert sum(1 for _ in kind.objects(2, FULL_BYTES // 100)) == kind.crowd // 50


# What it costs.


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_others_go_on_beside_hostile_objects_and_those_end_bound_or_parked(kind):
    """A process that survives it, and no table of it grows: times are for ``make hostile``."""
    cost = measure(kind, SHORT)

    assert cost.undecided == 0
    assert (cost.pods > 0) == (kind.where is Where.PENDING and "gates" not in kind.name)
    assert cost.plain > 0
    assert cost.beside > 0
    assert len(cost.condition) < FULL_BYTES


def test_costs_beyond_the_limits_are_problems():
    def found(**other):
        changed = {**{name: getattr(COST, name) for name in COST.__slots__}, **other}
        return list(judge.problems(Cost(**changed)))

    assert found() == []
    assert found(beside=0.0029) == []
    assert found(beside=0.0041) == ["another pod's decision takes 4.1 times as long"]
    assert found(parked=4) == ["1 of them are neither bound nor parked"]
    assert found(beside_step=0.06) == ["a step of ControlLoop.run takes 60 ms"]
    assert found(kept=3_000_000) == ["3.0 MB of 0.0 MB stay"]


def test_a_slow_machine_and_a_slow_kube_scheduler_excuse_a_slow_step_and_a_slow_decision():
    cost = Cost(**{**COST.document, "beside": 0.005, "arrival_step": 0.08})

    assert len(list(judge.problems(cost))) == 2
    assert list(judge.problems(cost, slower=2.0, theirs=6.0)) == []


# The cluster inside.


def test_computing_takes_its_time_and_waiting_takes_none_of_the_machine():
    async def scenario():
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert sum(range(100_000))
        computed = loop.time() - began
        with loop.elsewhere():
            assert sum(range(1_000_000))
        await asyncio.sleep(600)
        return computed, loop.time() - began, loop.longest

    computed, in_all, longest = run(scenario())

    assert computed > 0
    assert 600 < in_all < 601
    assert longest < 10


def test_a_pod_inside_is_bound_as_in_production():
    async def scenario():
        cluster = Cluster(asyncio.get_running_loop())
        async with cluster.running():
            await cluster.create(plain_node(0, 1))
            path = await cluster.create(churned_pod(0))
            await asyncio.sleep(1)
            bound = cluster.document(path)["spec"].get("nodeName")
            await cluster.remove(path)
            await asyncio.sleep(1)
            return bound, cluster.core.cache.sizes()

    assert run(scenario()) == ("node-00000", {"nodes": 1, "pods": 0, "assumed_pods": 0})


# What stays.


def test_every_table_is_back_at_its_start_after_pods_have_come_and_gone():
    found = churn(pods=240, nodes=10)

    assert [kept.pods for kept in found] == [0, 60, 120, 180, 240]
    assert list(kept_problems(found, nodes=10)) == []


def test_what_grows_with_pods_is_a_problem():
    def kept(pods, entries_, memory=0, garbage=0):
        caches_ = {"scheduler.model.x.f": entries_["A.b"] * 1000}
        return Kept(pods, entries_, caches_, memory, garbage)

    def problems(*moments):
        return list(kept_problems([kept(0, {"A.b": 0}), *moments], nodes=10))

    assert problems(kept(100, {"A.b": 10}), kept(200, {"A.b": 20})) == []
    assert problems(kept(100, {"A.b": 10}), kept(200, {"A.b": 200})) == [
        "A.b grows from 10 entries to 200"
    ]
    assert problems(kept(100, {"A.b": 10}), kept(200, {"A.b": 10}, garbage=100)) == []
    assert problems(kept(100, {"A.b": 10}), kept(200, {"A.b": 10}, garbage=101)) == [
        "101 objects wait for the garbage collector"
    ]
    full = problems(kept(6000, {"A.b": 10}), kept(12000, {"A.b": 5000}, memory=10**8))
    assert full == [
        "A.b grows from 10 entries to 5,000",
        "scheduler.model.x.f holds 5.0 MB",
        "memory grows from 0.0 MB to 100.0 MB",
    ]


def test_tables_are_found_wherever_they_are():
    async def scenario():
        cluster = Cluster(asyncio.get_running_loop())
        async with cluster.running():
            before = entries(cluster.core)
            await cluster.create(plain_node(0, 1))
            await asyncio.sleep(1)
            return grown(before, entries(cluster.core))

    changed = run(scenario())

    assert changed["ClusterColumns.rows"] == (0, 1)
    assert changed["ClusterColumns.nodes"] == (0, 1)


def test_caches_are_measured_in_bytes_with_all_they_refer_to():
    # Other tests may have filled it: a new entry would replace an old one, and nothing would grow.
    quantity._parse_kept.cache_clear()
    before = sum(caches().values())
    literals = [f"{number}u" for number in range(71000, 71100)]
    for literal in literals:
        nanos(literal)

    assert sum(caches().values()) - before > sum(map(len, literals))


def test_tables_of_modules_count_as_those_of_objects():
    assert entries()["scheduler.plugins.IN_TREE"] == len(IN_TREE)


# On a control plane.


def test_a_slowdown_counts_where_kube_scheduler_has_less():
    pending = next(kind for kind in KINDS if kind.where is Where.PENDING)

    def found(ours, theirs, parked=2):
        sides = {
            OURS: Side(plain=0.001, beside=0.001 * ours, parked=parked),
            THEIRS: Side(plain=0.001, beside=0.001 * theirs),
        }
        return list(side_problems(pending, SHORT, sides))

    assert found(2.9, 1.0) == []
    assert found(5.0, 6.0) == []
    assert found(5.0, 1.0) == [
        "another pod's decision takes 5.0 times as long, with kube-scheduler 1.0 times"
    ]
    assert found(1.0, 1.0, parked=1) == ["1 of them are neither bound nor parked"]


def test_memory_over_time_is_flat_after_its_first_third():
    assert course_problem([(n, 50 + min(n, 10)) for n in range(30)]) == ""
    assert course_problem([(n, 10**8 + n * 10**6) for n in range(30)]) == (
        "memory grows from 114.5 MB to 124.5 MB"
    )
    assert course_problem([(1, 1)]) == "too short to judge"
