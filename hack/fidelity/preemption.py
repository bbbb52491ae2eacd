"""Preemption compared with kube-scheduler's: the same victims, and the same messages.

``python -m hack.fidelity.preemption --clusters 300 --seed 1`` fills clusters on a local control
plane and then posts more important pods, one at a time. Before each of them everything is read back
as the API server holds it. What kube-scheduler does about the pod has to be what we would have
done: bind it to one of our best nodes; nominate one of the nodes that hurt least, and evict the
same pods there; or refuse it, with the same condition and event to the last letter, and leave or
clear its nomination as we would. Whatever could be decided has to have been decided often enough.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.control_plane import ControlPlane
from hack.decisions import Decisions
from hack.fidelity.clusters import Question
from hack.fidelity.full_clusters import make_full_cluster
from hack.fidelity.live_cluster import LiveCluster, Observed, bare
from hack.fidelity.preempting import (
    CONFIG,
    LEVELS,
    MATTERS,
    Answer,
    ask_ours,
    kind,
    upstream_miscounts,
    without,
)
from hack.fidelity.shrink import Shrinker
from hack.fidelity.words import Dice, Json
from scheduler.framework.decision import Bind, Park, Preempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN: Final = 3
_SHRINKING_SECONDS: Final = 90.0
_SHRINKING_PATIENCE_SECONDS: Final = 3.0
_OUTCOMES: Final = {
    "preemptionPolicy=Never": "not eligible due to preemptionPolicy=Never.",
    "a terminating pod": "not eligible due to a terminating pod on the nominated node.",
    "no victims": "No preemption victims found for incoming pod",
    "not helpful": "Preemption is not helpful for scheduling",
    "spread in the way": "node(s) didn't match pod topology spread constraints",
    "affinity in the way": "node(s) didn't match pod affinity rules",
}
"""What a message may say."""


def main() -> int:
    """Compare; 0 if nothing differs and enough was asked."""
    parser = argparse.ArgumentParser(prog="python -m hack.fidelity.preemption", description=__doc__)
    parser.add_argument("--clusters", type=int, default=300, help="how many to fill")
    parser.add_argument("--seed", type=int, default=1, help="from which everything is made")
    parser.add_argument(
        "--coverage", type=int, default=8, help="how often everything has to occur; 0: never"
    )
    parser.add_argument("--case", metavar="SEED:NUMBER", help="only this cluster")
    parser.add_argument("--questions", type=Path, metavar="FILE", help="write what we were asked")
    parser.add_argument("--decisions", type=Path, metavar="FILE", help="write what we decided")
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only judge these questions, on our side alone"
    )
    options = parser.parse_args()
    decisions = Decisions(options.decisions)
    if options.again:
        return _judge_again(options.again, decisions)
    seed, numbers = options.seed, range(options.clusters)
    if options.case:
        seed, only = map(int, options.case.split(":"))
        numbers = range(only, only + 1)
    # Without the admission that knows priority classes and gives new nodes a taint.
    with ControlPlane(components=(), benchmark=True) as plane:
        # Else a pod that waits is tried again as soon as nobody else is there.
        gates = "--feature-gates=SchedulerPopFromBackoffQ=false"
        plane.start_kube_scheduler(CONFIG, flags=[gates])
        run = Run(Decisions(options.questions), decisions)
        asyncio.run(_compare(run, plane, seed, numbers))
    for line in run.lines():
        print(line)
    missing = list(run.missing(options.coverage)) if len(numbers) > 1 else []
    for line in missing:
        print(f"not enough: {line}")
    print(f"decisions: {decisions.digest}")
    print(
        f"preemption: {len(numbers)} clusters, {run.asked} preemptors, {run.mismatches} mismatches"
    )
    return int(bool(missing or run.mismatches))


def _judge_again(path: Path, decisions: Decisions) -> int:
    """Judge the questions of an earlier run once more.

    No run asks the same as another: kube-scheduler breaks ties by chance.
    """
    asked = 0
    with path.open() as lines:
        for line in lines:
            question = json.loads(line)
            decisions.add(as_decided(ask_ours(question["before"], question["pod"])))
            asked += 1
    print(f"decisions: {decisions.digest}")
    print(f"preemption: {asked} preemptors judged again")
    return 0


def as_decided(ours: Answer) -> Json:
    """Return what we decided as JSON: what is chosen, whom it costs, what is said."""
    decision = ours.decision
    return {
        "decision": type(decision).__name__,
        "node": decision.node if isinstance(decision, Bind | Preempt) else "",
        "victims": [pod.uid for pod in decision.victims] if isinstance(decision, Preempt) else [],
        "nomination": repr(decision.nomination),
        "message": ours.message,
        "nodes": sorted(ours.nodes),
        "level": ours.level,
        "candidates": [
            [node, [pod.uid for pod in each.victims], each.pdb_violations]
            for node, each in ours.candidates.items()
        ],
    }


async def _compare(run: Run, plane: ControlPlane, seed: int, numbers: Sequence[int]) -> None:
    async with LiveCluster(plane.admin_kubeconfig) as live:
        run.live = live
        for number in numbers:
            cluster = make_full_cluster(seed, number)
            await run.compare(cluster, Dice(f"after:{cluster.origin}"))


class Run:
    """One comparison.

    Args:
        questions: Takes what our side is asked.
        decisions: Takes what it decides.
    """

    live: LiveCluster

    def __init__(self, questions: Decisions, decisions: Decisions) -> None:
        self._questions = questions
        self._decisions = decisions
        self.asked = 0
        self.mismatches = 0
        self._explained = 0
        self._found: Counter[str] = Counter()

    async def compare(self, cluster: Question, dice: Dice) -> None:
        """Fill a cluster, post the preemptors to it, compare after each, and clean up."""
        await self.live.fill(cluster.objects)
        for preemptor in cluster.pods:
            before = await self.live.objects()
            ours, observed, problems = await self._try(before, preemptor)
            self._questions.add({"before": before, "pod": observed.posted})
            self._decisions.add(as_decided(ours))
            self.asked += 1
            self._count(before, observed.posted, ours)
            if problems and upstream_miscounts(before, observed.posted):
                self._explained += 1
                problems = []
            if problems:
                await self.live.clear()
                await self._report(cluster, before, preemptor, problems)
                return
            await self.live.settle(observed, keep=dice.chance(0.6))
        await self.live.clear()

    async def _try(
        self, before: Sequence[Json], preemptor: Json
    ) -> tuple[Answer, Observed, list[str]]:
        """Post a pod, and compare what becomes of it with what we would do."""
        observed = await self.live.post(preemptor)
        ours = ask_ours(before, observed.posted)
        if observed.nominated in ours.candidates and isinstance(ours.decision, Preempt):
            leaving = {each.uid for each in ours.candidates[observed.nominated].victims}
            await self.live.watch_leaving(observed, len(leaving - _going(before)))
        else:
            await self.live.watch_leaving(observed, 0)
        return ours, observed, list(differences(before, observed, ours))

    # Mismatches.

    async def _report(
        self, cluster: Question, before: Sequence[Json], preemptor: Json, problems: Sequence[str]
    ) -> None:
        """Print a mismatch, the first ones with the smallest cluster that shows it."""
        self.mismatches += 1
        name = preemptor["metadata"]["name"]
        for problem in problems:
            print(f"mismatch: cluster {cluster.origin}, pod {name}: {problem}", flush=True)
        if self.mismatches > _SHOWN:
            return
        whole = Question(
            [bare(each) for each in before if each["kind"] != "Namespace"],
            [preemptor],
            {},
            cluster.origin,
        )
        if not await self._still_differs(whole):
            print("  not so in a cluster that is made of what was there", flush=True)
            return
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + _SHRINKING_SECONDS

        def differs(question: Question) -> bool:
            if time.monotonic() >= deadline:
                return False
            return asyncio.run_coroutine_threadsafe(self._still_differs(question), loop).result()

        small = await asyncio.to_thread(Shrinker(differs).shrink, whole)
        for document in (*small.objects, *small.pods):
            print(f"  {json.dumps(document)}", flush=True)

    async def _still_differs(self, question: Question) -> bool:
        try:
            async with asyncio.timeout(_SHRINKING_PATIENCE_SECONDS):
                await self.live.fill(question.objects)
                before = await self.live.objects()
                _, _, problems = await self._try(before, question.pods[0])
        except Exception:  # noqa: BLE001 - made too small: either side may refuse the question
            return False
        finally:
            await self.live.clear()
        return bool(problems)

    # Coverage.

    def _count(self, before: Sequence[Json], preemptor: Json, ours: Answer) -> None:
        decision = ours.decision
        self._found[type(decision).__name__] += 1
        if ours.level:
            self._found[f"decided by {ours.level}"] += 1
        if isinstance(decision, Park):
            for what, text in _OUTCOMES.items():
                self._found[f"says {what}"] += text in ours.message
        if isinstance(decision, Preempt):
            chosen = ours.candidates[decision.node]
            self._found["violates a budget"] += chosen.pdb_violations > 0
            self._found["several victims"] += len(chosen.victims) > 1
            self._found["a victim goes already"] += any(pod.terminating for pod in chosen.victims)
            self._found["prefers to be near or apart"] += "preferred" in str(preemptor["spec"])
            self._found["soft spread"] += "ScheduleAnyway" in str(preemptor["spec"])
        if isinstance(decision, Bind):
            return
        harm = ours.harm()
        for what in MATTERS:
            left, pod = without(what, before, preemptor)
            changed = (len(left), pod) != (len(before), preemptor) or what.endswith("of others")
            if changed and (other := ask_ours(left, pod).harm()) != harm:
                self._found[f"hangs on {what}"] += 1
                self._found[f"made possible without {what}"] += bool(other and not harm)

    def missing(self, least: int) -> Iterator[str]:
        """Yield what occurred less than *least* times."""
        wanted = [
            *("Bind", "Preempt", "Park", "violates a budget", "several victims"),
            *("a victim goes already", "prefers to be near or apart", "soft spread"),
            *(f"decided by {level}" for level in LEVELS),
            *(f"says {what}" for what in _OUTCOMES),
            *(f"hangs on {what}" for what in MATTERS),
        ]
        for what in wanted:
            if self._found[what] < least:
                yield f"{what}: {self._found[what]} of {least}"

    def lines(self) -> Iterator[str]:
        """Yield the table of what occurred."""
        for what, count in sorted(self._found.items()):
            yield f"{count:7}  {what}"
        yield f"{self._explained:7}  different, since upstream takes off counts what it never added"


def _going(objects: Sequence[Json]) -> set[str]:
    return {
        each["metadata"]["uid"]
        for each in objects
        if each["kind"] == "Pod" and "deletionTimestamp" in each["metadata"]
    }


def differences(before: Sequence[Json], observed: Observed, ours: Answer) -> Iterator[str]:
    """Yield every difference between what became of a pod and what we would do."""
    if isinstance(ours.decision, Bind) or observed.node:
        if observed.node not in ours.nodes or not isinstance(ours.decision, Bind):
            yield f"bound to {observed.node!r}; {_ours(ours)}"
        return
    if observed.message != ours.message:
        yield f"condition {observed.message!r}; we say {ours.message!r}"
    note = ours.message if len(ours.message) <= 1024 else f"{ours.message[:1020]} ..."
    if observed.event != note:
        yield f"event {observed.event!r}; we say {note!r}"
    expected = ours.nominated(
        observed.posted["status"].get("nominatedNodeName", ""), observed.nominated
    )
    if observed.nominated != expected:
        yield f"nominated to {observed.nominated!r}; {_ours(ours)}"
    if not isinstance(ours.decision, Preempt):
        if observed.leaving:
            yield f"evicts {sorted(observed.leaving)}; {_ours(ours)}"
        return
    if observed.nominated not in ours.nodes:
        yield f"evicts pods on {observed.nominated!r}; {_ours(ours)}"
        return
    victims = [pod.name for pod in ours.candidates[observed.nominated].victims]
    if not _same_victims(before, victims, observed):
        yield (
            f"evicts {sorted(observed.leaving)} on {observed.nominated}; "
            f"we would evict {sorted(victims)}"
        )


def _same_victims(before: Sequence[Json], victims: Sequence[str], observed: Observed) -> bool:
    """Return whether the evicted pods are *victims*, or pods that are alike.

    A terminating pod is not evicted again. Where some of several alike pods are evicted, upstream
    may have chosen others of them than we.
    """
    pods = {each["metadata"]["name"]: each for each in before if each["kind"] == "Pod"}
    there = [
        name for name, each in pods.items() if each["spec"].get("nodeName") == observed.nominated
    ]
    if not observed.leaving <= set(there):
        return False
    needed, seen = (
        Counter(kind(pods[n]) for n in victims),
        Counter(kind(pods[n]) for n in observed.leaving),
    )
    going = Counter(kind(pods[n]) for n in there if "deletionTimestamp" in pods[n]["metadata"])
    staying = Counter(kind(pods[name]) for name in there) - going
    return all(
        max(0, needed[each] - going[each]) <= seen[each] <= min(needed[each], staying[each])
        for each in needed | seen
    )


def _ours(ours: Answer) -> str:
    match ours.decision:
        case Bind():
            return f"we would bind it to one of {sorted(ours.nodes)}"
        case Preempt():
            return f"we would evict pods on one of {sorted(ours.nodes)}: {ours.harm()}"
    return f"we would not: {ours.message}"


if __name__ == "__main__":
    sys.exit(main())
