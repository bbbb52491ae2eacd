"""Compare our plugins with kube-scheduler's, over clusters made from a seed."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hack.binaries.pins import KUBERNETES
from hack.binaries.toolchain import BuildError
from hack.fidelity.clusters import PODS_IN_QUESTION, Question, make_question
from hack.fidelity.compare import Difference, differences
from hack.fidelity.configs import without
from hack.fidelity.coverage import Coverage
from hack.fidelity.golden import record
from hack.fidelity.ours import OurCluster, compared_plugins, ours_lacks
from hack.fidelity.shrink import Shrinker
from hack.oracle import Oracle, OracleError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN: Final = 3


def main() -> int:
    """Run the comparison; 0 if nothing differs and enough was asked."""
    options = _options()
    try:
        with Oracle() as oracle:
            run = Run(oracle, options.coverage)
            if options.record:
                return run.record(options.record, options.seed)
            if options.case:
                seed, _, number = options.case.partition(":")
                return run.compare(int(seed), range(int(number), int(number) + 1))
            return run.compare(options.seed, range(math.ceil(options.pods / PODS_IN_QUESTION)))
    except (BuildError, OracleError) as error:
        print(error, file=sys.stderr)
        return 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hack.fidelity", description=__doc__)
    parser.add_argument("--pods", type=int, default=5000, help="how many pods to ask about")
    parser.add_argument("--seed", type=int, default=1, help="from which all clusters are made")
    parser.add_argument(
        "--coverage", type=int, default=30, help="how often everything has to occur; 0: never"
    )
    parser.add_argument("--case", metavar="SEED:NUMBER", help="only this cluster")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write a golden file")
    return parser.parse_args()


class Run:
    """One comparison."""

    def __init__(self, oracle: Oracle, least: int) -> None:
        self._oracle = oracle
        self._least = least
        self._lacks = ours_lacks()
        self._coverage = Coverage()
        self._mismatches = 0

    def record(self, path: Path, seed: int) -> int:
        """Write a golden file."""
        kept = record(path, seed, compared_plugins(), self._lacks, self._oracle.ask)
        print(f"{path}: {kept} clusters, {path.stat().st_size // 1024} KiB")
        return 0

    def compare(self, seed: int, numbers: Sequence[int]) -> int:
        """Compare all pods of some questions, and sum up."""
        print(f"kube-scheduler {KUBERNETES}; not compared: {', '.join(sorted(self._lacks))}")
        pods = sum(self._compare_question(make_question(seed, number)) for number in numbers)
        for line in self._coverage.lines():
            print(line)
        whole = len(numbers) > 1
        missing = list(self._coverage.missing(compared_plugins(), self._least)) if whole else []
        for line in missing:
            print(f"not enough: {line}")
        print(f"fidelity: {pods} pods, {len(numbers)} clusters, {self._mismatches} mismatches")
        return int(bool(missing or self._mismatches))

    def _compare_question(self, question: Question) -> int:
        question.config = without(question.config, self._lacks)
        answer = self._oracle.ask(question.document)
        ours = OurCluster(question.config, question.objects)
        assert ours.names == answer["nodes"], "the sides disagree about which nodes there are"
        for pod, said in zip(question.pods, answer["pods"], strict=True):
            self._coverage.count(said, len(ours.names))
            found = list(differences(said, ours.judge(pod), pod, ours.names))
            if found:
                self._mismatches += 1
                self._tell(question, pod["metadata"]["name"], found)
        return len(question.pods)

    def _tell(self, question: Question, pod: str, found: Sequence[Difference]) -> None:
        """Print the first differences in full, each with the smallest cluster that shows it."""
        print(f"mismatch: cluster {question.origin}, pod {pod}: {found[0].where}")
        if self._mismatches > _SHOWN:
            return
        alone = [each for each in question.pods if each["metadata"]["name"] == pod]
        asked = Question(question.objects, alone, question.config, question.origin)
        places = [each.where for each in found]
        small = Shrinker(lambda each: self._differs(each, places)).shrink(asked)
        for document in (*small.objects, small.config, *small.pods):
            print(f"  {json.dumps(document)}")
        for difference in self._differences(small):
            print(f"  {difference}")

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
