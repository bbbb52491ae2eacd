"""Compare our plugins with kube-scheduler's, over clusters made from a seed.

First what becomes of configuration documents; then with its plugins, linked into the oracle; then
with the program itself on a real API server.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.binaries.pins import KUBERNETES
from hack.binaries.toolchain import BuildError
from hack.decisions import Decisions
from hack.fidelity.clusters import PODS_IN_QUESTION, Question, make_question
from hack.fidelity.compare import Difference, differences
from hack.fidelity.coverage import Coverage
from hack.fidelity.golden import record, record_rulings
from hack.fidelity.live import Live
from hack.fidelity.ours import OurCluster, compared_plugins
from hack.fidelity.rulings import difference, rule, rulings
from hack.fidelity.shrink import Shrinker
from hack.oracle import Oracle, OracleError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

_SHOWN: Final = 3


def main() -> int:
    """Run the comparison; 0 if nothing differs and enough was asked."""
    options = _options()
    print(f"kube-scheduler {KUBERNETES}")
    try:
        with Oracle() as oracle:
            if options.record:
                return _record(oracle, options.record, options.seed)
            run = Run(oracle, options.coverage, Decisions(options.decisions))
            if options.again:
                run.judge_again(options.again)
            elif options.case:
                seed, _, number = options.case.partition(":")
                run.compare_linked(int(seed), [int(number)])
            else:
                run.compare_documents(options.seed, options.documents)
                run.compare_linked(options.seed, range(math.ceil(options.pods / PODS_IN_QUESTION)))
                run.compare_live(options.seed, options.live_pods, options.questions)
    except (BuildError, OracleError) as error:
        print(error, file=sys.stderr)
        return 2
    return run.sum_up()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.fidelity", description=__doc__)
    parser.add_argument("--pods", type=int, default=6000, help="how many pods to ask about")
    parser.add_argument(
        "--live-pods", type=int, default=300, help="how many pods to post to a real API server"
    )
    parser.add_argument(
        "--documents", type=int, default=1500, help="how many configuration documents to judge"
    )
    parser.add_argument("--seed", type=int, default=1, help="from which all clusters are made")
    parser.add_argument(
        "--coverage", type=int, default=30, help="how often everything has to occur; 0: never"
    )
    parser.add_argument("--case", metavar="SEED:NUMBER", help="only this cluster")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write a golden file")
    parser.add_argument("--decisions", type=Path, metavar="FILE", help="write what we decided")
    parser.add_argument(
        "--questions", type=Path, metavar="FILE", help="write what the live part asked us"
    )
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only judge these questions, on our side alone"
    )
    return parser.parse_args()


def _record(oracle: Oracle, path: Path, seed: int) -> int:
    kept = record(path, seed, compared_plugins(), oracle.ask)
    print(f"{path}: {kept} clusters, {path.stat().st_size // 1024} KiB")
    beside = path.parent / "configuration" / "rulings.jsonl"
    beside.parent.mkdir(exist_ok=True)
    kept = record_rulings(beside, seed, oracle.ask)
    print(f"{beside}: {kept} documents, {beside.stat().st_size // 1024} KiB")
    return 0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


class Run:
    """One comparison, of one or two parts.

    Args:
        oracle: Answers for kube-scheduler's plugins.
        least: How often everything has to occur.
        decisions: Takes all our answers.
    """

    def __init__(self, oracle: Oracle, least: int, decisions: Decisions) -> None:
        self._oracle = oracle
        self._least = least
        self._decisions = decisions
        self._pods = self._clusters = self._mismatches = 0
        self._too_rare: list[str] = []

    def compare_documents(self, seed: int, number: int) -> None:
        """Compare what becomes of configuration documents; a fifth of them are drawn by lot."""
        if not number:
            return
        found = {"accepted": 0, "refused": 0}
        for text, said in rulings(self._oracle.ask, seed, number - number // 5, number // 5):
            found["accepted" if said["stage"] == "accepted" else "refused"] += 1
            if differs := difference(said, rule(text)):
                self._mismatches += 1
                print(f"mismatch: document: {differs}\n  {text}")
        print(f"documents: {found['accepted']} accepted and {found['refused']} refused by both")

    def compare_linked(self, seed: int, numbers: Sequence[int]) -> None:
        """Compare all pods of some questions with what the oracle says."""
        if not numbers:
            return
        coverage = Coverage()
        for number in numbers:
            self._compare_question(make_question(seed, number), coverage)
        for line in coverage.lines():
            print(line)
        self._clusters += len(numbers)
        if len(numbers) > 1:
            self._too_rare += coverage.missing(compared_plugins(), self._least)

    def judge_again(self, path: Path) -> None:
        """Judge the questions of an earlier live part once more.

        The live part never asks the same twice: kube-scheduler breaks ties by chance, and pods that
        it has placed are part of the next question.
        """
        with path.open() as lines:
            for line in lines:
                asked = json.loads(line)
                ours = OurCluster(asked["config"], asked["objects"])
                self._decisions.add([ours.judge(pod) for pod in asked["pods"]])
                self._pods += 1

    def compare_live(self, seed: int, pods: int, questions: Path | None = None) -> None:
        """Compare pods that the program itself decides about with what both others say."""
        if not pods:
            return
        live = Live(self._oracle.ask, self._report, seed, Decisions(questions))
        live.run(pods)
        print(f"live: {_listed(live.found)}; nodes refused by {_listed(live.coverage.refused)}")
        self._pods += live.pods
        self._clusters += live.found["clusters"]
        self._too_rare += live.too_rare(self._least)

    def sum_up(self) -> int:
        """Print what was too rare and the last line; return the exit code."""
        for line in self._too_rare:
            print(f"not enough: {line}")
        print(f"decisions: {self._decisions.digest}")
        print(
            f"fidelity: {self._pods} pods, {self._clusters} clusters, {self._mismatches} mismatches"
        )
        return int(bool(self._too_rare or self._mismatches))

    def _compare_question(self, question: Question, coverage: Coverage) -> None:
        answer = self._oracle.ask(question.document)
        ours = OurCluster(question.config, question.objects)
        assert ours.names == answer["nodes"], "the sides disagree about which nodes there are"
        for pod, said in zip(question.pods, answer["pods"], strict=True):
            coverage.count(said, len(ours.names))
            judged = ours.judge(pod)
            self._decisions.add(judged)
            found = list(differences(said, judged, pod, ours.names))
            if found:
                self._report(
                    Question(question.objects, [pod], question.config, question.origin), found
                )
        self._pods += len(question.pods)

    def _report(self, question: Question, found: Sequence[Difference]) -> None:
        """Print the first differences in full, each with the smallest cluster that shows it.

        What the live program alone does cannot be tried again: its cluster is printed as it was.
        """
        self._mismatches += 1
        name = question.pods[0]["metadata"]["name"]
        print(f"mismatch: cluster {question.origin}, pod {name}: {found[0].where}")
        if self._mismatches > _SHOWN:
            return
        places = [each.where for each in self._differences(question)]
        if places:
            shrinker = Shrinker(lambda each: self._differs(each, places))
            question = shrinker.shrink(question)
        for document in (*question.objects, question.config, *question.pods):
            print(f"  {json.dumps(document)}")
        live = [each for each in found if each.where.startswith("live")]
        for each in (*live, *self._differences(question)):
            print(f"  {each}")

    def _differs(self, question: Question, places: Sequence[str]) -> bool:
        return [each.where for each in self._differences(question)] == places

    def _differences(self, question: Question) -> Sequence[Difference]:
        try:
            answer = self._oracle.ask(question.document)
            ours = OurCluster(question.config, question.objects)
            pod = question.pods[0]
            judged = ours.judge(pod)
        except Exception:  # noqa: BLE001 - made too small: either side may refuse the question
            return ()
        return list(differences(answer["pods"][0], judged, pod, ours.names))


if __name__ == "__main__":
    sys.exit(main())
