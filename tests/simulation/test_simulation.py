"""The scheduler under injected faults, and that the simulator finds the mistakes it is there for.

The first two hundred seeds; ``make simulation`` runs ten thousand. A seed that fails is run again
with ``python -m hack.simulation --seed N``, and it is the same run.
"""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.binding.binding_plugins import BindingPlugins
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import Unreachable
from scheduler.framework.decision import SetTo
from scheduler.kube import binding, eviction
from scheduler.kube.binding import Conflicted, NotBound
from scheduler.plugins import default_preemption
from scheduler.plugins.default_preemption import _DryRun
from scheduler.preemption.preemptors import Preemptors
from scheduler.queue.in_flight import InFlight
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot import disruption_budgets
from scheduler.snapshot.node_table import NodeTable
from tests.simulation.simulation import simulate

ROOT = Path(__file__).parents[2]
STEPS = 120
SEEDS_AT_ONCE = 20
KILL_SITES_MINIMUM = 5
FAULTS = {
    "404",
    "409",
    "410",
    "429",
    "500",
    "503",
    "API server restart",
    "applied, answer lost",
    "delay",
    "eviction hangs on grace period",
    "kubelet rejection",
    "no answer",
    "other scheduler",
    "same name, other UID",
    "scheduler killed",
    "watch dropped",
    "watch late",
}
"""Faults that every twenty runs must meet; silent watches and finalizers are too rare."""
SEEDS_FOR_A_BUG = 100
MORE_THAN_ANY = 2**31  # a priority that no pod can have


@pytest.fixture(autouse=True)
def silence():
    before = structlog.get_config()
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("first", range(0, 200, SEEDS_AT_ONCE))
def test_nothing_is_lost_doubled_or_forgotten(first):
    outcomes = [simulate(seed, most_steps=STEPS) for seed in range(first, first + SEEDS_AT_ONCE)]

    for outcome in outcomes:
        assert not outcome.violation, outcome.report()
    met = {kind for outcome in outcomes for kind in outcome.kinds}
    assert met >= FAULTS
    assert len({site for outcome in outcomes for site in outcome.killed_at}) >= KILL_SITES_MINIMUM


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1460, id="a node that no longer fits although its victims are gone"),
        pytest.param(4462, id="posted again after its end, before the watch delivered that"),
        pytest.param(6333, id="capacity of a pod whose end was read after a lost answer"),
        pytest.param(4485, id="left at PreEnqueue when the node was deleted"),
        pytest.param(30008, id="nominations replaced before they were written"),
        pytest.param(20155, id="rejected for a nominated pod that was bound elsewhere"),
        pytest.param(35, id="victims evicted again and again before the watch reported their end"),
    ],
)
def test_a_run_that_went_wrong_once(seed):
    outcome = simulate(seed)

    assert not outcome.violation, outcome.report()


def test_a_seed_is_a_run():
    assert simulate(7, most_steps=STEPS) == simulate(7, most_steps=STEPS)
    assert simulate(7, most_steps=STEPS).digest != simulate(8, most_steps=STEPS).digest


def test_a_seed_is_the_same_run_in_every_process():
    """The order of a set of strings differs between processes; no run may depend on it."""
    program = (
        "import logging, structlog\n"
        "structlog.configure("
        "wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))\n"
        "from tests.simulation.simulation import simulate\n"
        "print(*(simulate(seed, most_steps=120).digest for seed in range(6)))\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }

    assert len(digests) == 1


# Mistakes that schedulers have made. Each test puts one back, and the simulator must find it.


def _caught(first=0):
    """Return the first violation that the simulator finds, from the seed *first* on."""
    for seed in range(first, first + SEEDS_FOR_A_BUG):
        outcome = simulate(seed)
        if outcome.violation:
            assert f"--seed {seed}" in outcome.report()
            return outcome.violation
    raise AssertionError(f"nothing was found in {SEEDS_FOR_A_BUG} runs")


def test_finds_an_assumption_that_is_not_forgotten_when_its_binding_fails(monkeypatch):
    monkeypatch.setattr(ClusterCache, "forget", lambda self, uid: None)

    assert re.search("although it is assumed|assumed forever|so it can't be assumed", _caught())


def test_finds_an_assumption_that_is_kept_after_a_conflict(monkeypatch):
    ended = BindingCycle._ended

    def keeps(self, placement, outcome):
        if not isinstance(outcome, Conflicted):
            ended(self, placement, outcome)

    monkeypatch.setattr(BindingCycle, "_ended", keeps)

    assert re.search("assumed forever|would go to", _caught(first=10))


def test_finds_a_lost_answer_that_is_taken_for_a_failure(monkeypatch):
    judge = binding._Binding.judge_failure

    def gives_up(self, error):
        return NotBound(str(error)) if isinstance(error, Unreachable) else judge(self, error)

    monkeypatch.setattr(binding._Binding, "judge_failure", gives_up)

    assert re.search("over-commits|too many|posted to .* before and is there", _caught())


def test_finds_an_event_that_is_dropped_while_a_pod_is_in_flight(monkeypatch):
    monkeypatch.setattr(InFlight, "record", lambda self, change: None)

    assert re.search("would go to", _caught())


def test_finds_a_nomination_that_outlives_its_pod(monkeypatch):
    delete = SchedulingQueue.delete

    def keeps_nomination(self, pod, now):
        node = self.nominated_node(pod.uid)
        delete(self, pod, now)
        if node:
            self.nominate(pod, SetTo(node), now)

    monkeypatch.setattr(SchedulingQueue, "delete", keeps_nomination)

    assert re.search("is nominated to .* although it is gone", _caught())


def test_finds_a_binding_that_waited_and_is_not_checked_again(monkeypatch):
    monkeypatch.setattr(BindingPlugins, "objection", lambda self, placement: "")

    assert re.search("over-commits|known to be gone|one pod too many", _caught(first=73))


def test_finds_an_assumed_pod_whose_end_is_not_noticed(monkeypatch):
    monkeypatch.setattr(BindingCycle, "on_assumed_pod_deleted", lambda self, pod: None)

    assert re.search("assumed forever", _caught(first=23))


def test_finds_a_nomination_that_outlasts_a_more_important_preemption_on_its_node(monkeypatch):
    monkeypatch.setattr(Preemptors, "_withdraw", lambda self, nominees: None)

    assert re.search("stays nominated to", _caught())


def test_finds_a_nomination_that_is_kept_by_a_pod_on_its_way_to_a_node(monkeypatch):
    begin = BindingCycle.begin

    def keeps_nomination(self, queued, profile, decision, started, extenders):
        node = self._queue.nominated_node(decision.pod.uid)
        begin(self, queued, profile, decision, started, extenders)
        if node:
            self._queue.nominate(decision.pod, SetTo(node), self._now())

    monkeypatch.setattr(BindingCycle, "begin", keeps_nomination)

    assert re.search("is nominated to .* although it is assumed|would go to", _caught())


def test_finds_victims_that_are_not_less_important(monkeypatch):
    genuine = NodeTable.potential_victims

    def all_pods(nodes, rows, priority, among=None):
        return genuine(nodes, rows, MORE_THAN_ANY, among)

    monkeypatch.setattr(NodeTable, "potential_victims", all_pods)

    assert re.search("has to go for .*, which is no more important", _caught())


def test_finds_victims_that_are_not_given_back(monkeypatch):
    def keeps(self, world, tried):
        for each in tried:
            for turn in range(len(each.pods)):
                each.add_victim(turn)
        return iter(())

    monkeypatch.setattr(_DryRun, "_reprieve", keeps)

    assert re.search("has to go without need", _caught())


def test_finds_victims_that_are_given_back_in_reverse(monkeypatch):
    arrange = _DryRun._arrange

    def reverses(self, row, pods):
        found = yield from arrange(self, row, pods)
        found.pods = (
            *reversed(found.pods[: found.protected]),
            *reversed(found.pods[found.protected :]),
        )
        return found

    monkeypatch.setattr(_DryRun, "_arrange", reverses)

    assert re.search("less important ones would do", _caught())


def test_finds_a_budget_whose_allowance_is_ignored(monkeypatch):
    monkeypatch.setattr(disruption_budgets, "_subtract", lambda spent, matching, allowed: False)

    assert re.search("against a budget|ones would do", _caught())


def test_finds_that_the_candidate_which_violates_budgets_is_taken(monkeypatch):
    def most_violations(candidates):
        return max(candidates, key=lambda each: each.pdb_violations)

    monkeypatch.setattr(default_preemption, "least_harm", most_violations)

    assert re.search("against a budget", _caught())


def test_finds_a_preemption_that_outlives_its_pod(monkeypatch):
    monkeypatch.setattr(Preemptors, "abandon", lambda self, pod: None)

    assert re.search("room is made for .* although it is gone", _caught())


def test_finds_an_eviction_without_the_uid(monkeypatch):
    monkeypatch.setattr(eviction, "_options", lambda victim: b"{}")

    assert re.search("is deleted without its UID", _caught())


def test_finds_a_binding_without_the_uid(monkeypatch):
    body = binding.binding_body

    def forgets_uid(pod, node, annotations=binding.NO_ANNOTATIONS):
        return body(pod, node, annotations).replace(f',"uid":"{pod.uid}"'.encode(), b"")

    monkeypatch.setattr(binding, "binding_body", forgets_uid)

    assert re.search("without a decision", _caught())


def test_without_kills_no_process_is_killed_and_the_same_seed_decides_the_same():
    once, again = (simulate(3, most_steps=STEPS, kills=False) for _ in range(2))

    assert not once.violation, once.report()
    assert not once.killed_at
    assert once.decisions == again.decisions
    assert once.decisions != simulate(4, most_steps=STEPS, kills=False).decisions
