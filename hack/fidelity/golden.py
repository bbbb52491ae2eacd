"""Answers of the oracle, kept as text: compared on every run of the tests, without Go.

The first line of a file tells the version and the seed; each further line is one question with its
answers. A file is recorded by ``python -m hack.fidelity --record FILE``, which keeps just as many
questions as it takes to have everything in it a few times.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hack.binaries.pins import KUBERNETES
from hack.fidelity.clusters import Question, make_question
from hack.fidelity.coverage import Coverage
from hack.fidelity.rulings import rulings

Json = dict[str, Any]

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    Ask = Callable[[Json], Json]

_TIMES: Final = 4
_MOST_QUESTIONS: Final = 4000
_RULINGS: Final = {"accepted": 80, "decode": 80, "validate": 120, "build": 60}


def record(path: Path, seed: int, plugins: Collection[str], ask: Ask) -> int:
    """Write a golden file; return how many questions it holds."""
    kept = list(_worth_keeping(seed, plugins, ask))
    header = {"version": KUBERNETES, "seed": seed, "plugins": sorted(plugins)}
    lines = [header, *kept]
    path.write_text("".join(_compact(line) + "\n" for line in lines), encoding="utf-8")
    return len(kept)


def record_rulings(path: Path, seed: int, ask: Ask) -> int:
    """Write what the oracle says of configuration documents; return how many there are."""
    room = dict(_RULINGS)
    lines: list[Json] = [{"version": KUBERNETES, "seed": seed}]
    for text, said in rulings(ask, seed, 5000, 200):
        room[said["stage"]] -= 1
        if room[said["stage"]] >= 0:
            lines.append({"document": text, "ruling": said})
    path.write_text("".join(_compact(line) + "\n" for line in lines), encoding="utf-8")
    return len(lines) - 1


def kept_rulings(path: Path) -> Iterator[tuple[str, Json]]:
    """Read such a file: documents with the oracle's rulings."""
    with path.open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            kept = json.loads(line)
            yield kept["document"], kept["ruling"]


def _worth_keeping(seed: int, plugins: Collection[str], ask: Ask) -> Iterator[Json]:
    """Yield questions that bring something that is still missing."""
    coverage = Coverage()
    for number in range(_MOST_QUESTIONS):
        missing = set(_wanted(coverage, plugins))
        if not missing:
            return
        question = make_question(seed, number)
        answer = ask(question.document)
        probe = Coverage()
        for pod in answer["pods"]:
            probe.count(pod, len(answer["nodes"]))
        if not missing <= set(_wanted(probe, plugins, least=1)):
            for pod in answer["pods"]:
                coverage.count(pod, len(answer["nodes"]))
            yield {"origin": question.origin, "question": question.document, "answer": answer}


def _wanted(coverage: Coverage, plugins: Collection[str], least: int = _TIMES) -> Iterator[str]:
    """Yield what is missing, without the figures."""
    return (line.rpartition(":")[0] for line in coverage.missing(plugins, least))


def questions(path: Path) -> Iterator[tuple[Question, Json]]:
    """Read a golden file: questions with the oracle's answers."""
    with path.open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            kept = json.loads(line)
            asked = kept["question"]
            question = Question(asked["objects"], asked["pods"], asked["config"], kept["origin"])
            yield question, kept["answer"]


def _compact(document: Json) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
