"""What kube-scheduler said about recorded clusters, compared without kube-scheduler.

The answers come from its own plugins (see hack/oracle), recorded by ``make golden``. A mismatch
means that we changed; the program is right.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hack.binaries.pins import KUBERNETES
from hack.fidelity.compare import differences
from hack.fidelity.coverage import Coverage
from hack.fidelity.golden import questions
from hack.fidelity.ours import OurCluster

FILES = sorted(Path(__file__).parent.glob("*.jsonl"))
RECORDED = [
    pytest.param(question, answer, id=f"{path.stem}-{question.origin}")
    for path in FILES
    for question, answer in questions(path)
]


@pytest.mark.parametrize(("question", "answer"), RECORDED)
def test_we_answer_as_kube_scheduler_did(question, answer):
    ours = OurCluster(question.config, question.objects)
    assert ours.names == answer["nodes"]
    found = [
        f"{pod['metadata']['name']}: {difference}"
        for pod, said in zip(question.pods, answer["pods"], strict=True)
        for difference in differences(said, ours.judge(pod), pod, ours.names)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_recording_has_everything_in_it(path):
    header = json.loads(path.read_text(encoding="utf-8").partition("\n")[0])
    assert header["version"] == KUBERNETES, "record again: make golden"
    coverage = Coverage()
    for _, answer in questions(path):
        for pod in answer["pods"]:
            coverage.count(pod, len(answer["nodes"]))
    assert not list(coverage.missing(header["plugins"], least=4))
