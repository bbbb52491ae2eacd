"""A comparison counts only if enough was asked: every field, every refusal, every score."""

from __future__ import annotations

import ast
import types
import typing
from ast import Constant
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hack.decisions import Decisions
from hack.fidelity import clusters, pods
from hack.fidelity.__main__ import Run
from hack.fidelity.claims import Storage
from hack.fidelity.clusters import make_question
from hack.fidelity.coverage import REASONS, Coverage
from hack.fidelity.ours import OurCluster
from scheduler import plugins
from scheduler.kube.watched import WATCHED
from scheduler.model.fact import Resource

ROOM = Path(plugins.__file__).parent
CLUSTERS = 30
"""So many are enough for everything to occur once."""


class Ourselves:
    """Answers as the oracle does: with our own plugins, so that no Go is needed."""

    def ask(self, document: dict[str, Any]) -> dict[str, Any]:
        ours = OurCluster(document["config"], document["objects"])
        return {"nodes": ours.names, "pods": [ours.judge(pod) for pod in document["pods"]]}


def run(oracle: Any, capsys: Any, numbers: range = range(CLUSTERS)) -> tuple[int, list[str]]:
    """Compare, and return the exit code and what was printed."""
    comparison = Run(oracle, least=1, decisions=Decisions())
    comparison.compare_linked(1, numbers)
    code = comparison.sum_up()
    return code, capsys.readouterr().out.splitlines()


def test_a_run_in_which_everything_occurs_ends_well(capsys):
    code, printed = run(Ourselves(), capsys)

    assert printed[-1] == f"fidelity: {20 * CLUSTERS} pods, {CLUSTERS} clusters, 0 mismatches"
    assert code == 0


@pytest.mark.parametrize(
    ("room", "part", "weaker", "missing"),
    [
        (
            clusters,
            "make_storage",
            lambda *_: Storage(),
            [
                "VolumeZone accepts: 0 of 1",
                "VolumeBinding refuses: 0 of 1",
                "NodeVolumeLimits says 'node(s) exceed max volume count': 0 of 1",
            ],
        ),
        (
            pods,
            "pod_affinity",
            lambda *_, **__: {},
            [
                "InterPodAffinity refuses: 0 of 1",
                "InterPodAffinity scores: 0 different values 1 times",
            ],
        ),
        (
            pods,
            "node_affinity",
            lambda *_: {},
            ["NodeAffinity says 'pod affinity terms conflict': 0 of 1"],
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_run_with_a_weaker_generator_fails_and_says_what_is_missing(
    room, part, weaker, missing, monkeypatch, capsys
):
    monkeypatch.setattr(room, part, weaker)

    code, printed = run(Ourselves(), capsys)

    assert code == 1
    assert {f"not enough: {line}" for line in missing} <= set(printed)


class Liar(Ourselves):
    """Says of every pod with a name that no node may take it."""

    def ask(self, document: dict[str, Any]) -> dict[str, Any]:
        answer = super().ask(document)
        for pod, said in zip(document["pods"], answer["pods"], strict=True):
            if pod["metadata"]["name"] == "pending-3" and answer["nodes"]:
                refused = {"code": "Unschedulable", "reasons": ["no"], "nodes": [0]}
                said["filter"] = {**said["filter"], "NodeName": [refused]}
        return answer


def test_a_mismatch_is_reported_with_its_origin_and_the_smallest_cluster_that_shows_it(capsys):
    code, printed = run(Liar(), capsys, range(1))

    assert code == 1
    assert "mismatch: cluster 1:0, pod pending-3: filter NodeName" in printed
    documents = [msgspec.json.decode(line) for line in printed if line.startswith("  {")]
    assert [each["kind"] for each in documents] == ["Node", "KubeSchedulerConfiguration", "Pod"]
    assert printed[-1] == "fidelity: 20 pods, 1 clusters, 1 mismatches"
    shown = printed[printed.index("  filter NodeName") :][:3]
    assert shown[1:] == ["    upstream: {0: ('', 'Unschedulable', ['no'])}", "    ours:     None"]


# Every field.

HOUSEKEEPING = {"resourceVersion", "generation", "creationTimestamp", "annotations", "namespace"}
NOT_GENERATED = {
    "Node.malformed": "ours",
    "Pod.malformed": "ours",
    "Pod.spec.resourceClaims": "refused, on purpose",
    "Pod.spec.schedulingGroup": "refused, on purpose",
    "Pod.spec.workloadRef": "refused, on purpose",
    "Pod.spec.priorityClassName": "the API server makes a priority of it",
    "Pod.status.reason": "of pods that failed",
    "Pod.status.message": "of pods that failed",
    "PersistentVolume.spec.gcePersistentDisk.readOnly": "read of disks that pods name",
    "PersistentVolume.spec.claimRef.apiVersion": "written, never read",
    "PersistentVolume.spec.claimRef.resourceVersion": "written, never read",
}
OF_CONDITIONS = {"message", "lastTransitionTime", "observedGeneration", "reason"}
OF_KINDS = {Resource.PRIORITY_CLASS: "read by the simulation alone", Resource.FAILED_POD: "a pod"}


def structs_in(hint: Any) -> list[type[msgspec.Struct]]:
    """Return the structs of which a field of type *hint* is made."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType, tuple, frozenset}:
        return [each for part in typing.get_args(hint) for each in structs_in(part)]
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return [hint] if is_struct else []


def unseen(kind: type[msgspec.Struct], documents: list[Any], path: str) -> list[str]:
    """Return the paths of the fields of *kind* that occur in none of *documents*."""
    hints, missing = typing.get_type_hints(kind), []
    for each in msgspec.structs.fields(kind):
        name, values = f"{path}.{each.encode_name}", []
        for document in documents:
            value = document.get(each.encode_name)
            values += value if isinstance(value, list) else [] if value is None else [value]
        if not values and not any(name.startswith(known) for known in NOT_GENERATED):
            missing.append(name)
        for inner in structs_in(hints[each.name]) if values else ():
            missing += unseen(inner, [value for value in values if isinstance(value, dict)], name)
    return missing


def counts(name: str) -> bool:
    """Tell whether a field without which nothing is compared is missing."""
    *_, parent, last = name.split(".")
    if "metadata" in name.split("."):
        return False
    return not (
        last == "limits"  # what a container may use, which is nobody's concern here
        or (parent == "conditions" and last in OF_CONDITIONS)
    )


def test_every_field_that_we_read_is_generated():
    documents = defaultdict(list)
    for number in range(150):
        question = make_question(5, number)
        for document in (*question.objects, *question.pods):
            documents[document["kind"]].append(document)

    for row in WATCHED.values():
        if row.resource in OF_KINDS:
            continue
        kind = row.resource.rpartition("/")[2]
        missing = unseen(row.kind, documents[kind], kind)
        assert not list(filter(counts, missing))


OURS_ALONE = {"node_trust.py", "unsupported_features.py"}


def said_of_nodes(module: Path) -> set[str]:
    """Return the literal reasons in *module*."""
    constants = (
        node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, Constant)
    )
    return {
        text
        for text in constants
        if isinstance(text, str) and text.startswith(("node(s) ", "PersistentVolume", "Too many"))
    }


def test_every_reason_in_our_plugins_is_demanded():
    demanded = {reason for reasons in REASONS.values() for reason in reasons}
    modules = [each for each in ROOM.rglob("*.py") if each.name not in OURS_ALONE]

    said = {text for module in modules for text in said_of_nodes(module)}

    assert len(said) > 20
    assert said <= demanded


def test_every_reason_that_occurs_is_demanded():
    coverage = Coverage()
    for number in range(CLUSTERS // 2):
        question = make_question(2, number)
        for pod in Ourselves().ask(question.document)["pods"]:
            coverage.count(pod, 1)

    demanded = {(plugin, reason) for plugin in REASONS for reason in REASONS[plugin]}
    assert set(coverage.reasons) <= demanded
