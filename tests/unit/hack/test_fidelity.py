"""The comparison with kube-scheduler: same seed, same cluster; differences seen and made small."""

from __future__ import annotations

import copy

import pytest

from hack.fidelity.clusters import Question, make_question
from hack.fidelity.compare import differences
from hack.fidelity.coverage import Coverage
from hack.fidelity.documents import make_documents
from hack.fidelity.ours import OurCluster, decode
from hack.fidelity.shrink import Shrinker

POD = {"metadata": {"name": "p"}}
NAMES = ["a", "b"]


def answer(**changes):
    scores = {"Fit": {"raw": [1, 2], "normalized": [50, 100], "weighted": [50, 100]}}
    return {
        "filter": {"Fit": []},
        "feasible": [0, 1],
        "scores": scores,
        "totals": [50, 100],
        "outcome": {"host": "b"},
    } | changes


def refusal(*nodes, reason="full", code="Unschedulable"):
    return {"code": code, "reasons": [reason], "nodes": list(nodes)}


def places(upstream, ours, pod=POD):
    return [each.where for each in differences(upstream, ours, pod, NAMES)]


def test_a_seed_makes_the_same_cluster_every_time_and_another_seed_another():
    assert make_question(7, 3) == make_question(7, 3)
    assert make_question(7, 3).objects != make_question(7, 4).objects
    assert make_question(7, 3).objects != make_question(8, 3).objects


def test_a_seed_makes_the_same_documents_every_time():
    assert make_documents(3, 20, 10) == make_documents(3, 20, 10)
    assert make_documents(3, 20, 10) != make_documents(4, 20, 10)


@pytest.mark.parametrize("number", range(20))
def test_generated_objects_can_be_read(number):
    question = make_question(11, number)

    for document in (*question.objects, *question.pods):
        if document["kind"] in {"Pod", "Node"}:
            assert not decode(document).malformed


def test_our_answers_differ_in_nothing_from_themselves():
    question = make_question(1, 5)
    ours = OurCluster(question.config, question.objects)

    for pod in question.pods:
        said = ours.judge(pod)
        assert list(differences(said, copy.deepcopy(said), pod, ours.names)) == []


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"filter": {"Fit": [refusal(1)]}}, ["filter Fit"]),
        ({"combined": [refusal(1)]}, ["combined"]),
        ({"preEnqueue": {"Gates": {"code": "x", "reasons": ["y"]}}}, ["preEnqueue Gates"]),
        ({"preFilter": {"Picky": {"code": "Success"}}}, ["preFilter Picky"]),
        ({"preFilter": {"Fit": {"code": "Unschedulable", "reasons": ["x"]}}}, ["preFilter Fit"]),
        ({"feasible": [0]}, ["feasible"]),
        ({"totals": [50, 101]}, ["totals"]),
        ({"scoreError": "no"}, ["scoreError"]),
        ({"outcome": {"host": "a"}}, ["host"]),
        ({"outcome": {"message": "0/2 nodes"}}, ["outcome"]),
        ({"outcome": {"error": "broken"}}, ["outcome"]),
        (
            {"scores": {"Fit": {"raw": [1, 3], "normalized": [50, 100], "weighted": [50, 100]}}},
            ["score Fit"],
        ),
    ],
)
def test_every_part_of_an_answer_is_compared(changes, where):
    assert places(answer(), answer(**changes)) == where
    assert places(answer(**changes), answer()) == where


def test_the_code_and_the_reason_of_a_refusal_are_compared():
    said = answer(filter={"Fit": [refusal(0)]})

    assert places(said, answer(filter={"Fit": [refusal(0, reason="other")]})) == ["filter Fit"]
    assert places(said, answer(filter={"Fit": [refusal(0, code="Error")]})) == ["filter Fit"]


def test_refusals_may_be_grouped_in_any_way():
    apart = answer(filter={"Fit": [refusal(0), refusal(1)]})

    assert places(answer(filter={"Fit": [refusal(0, 1)]}), apart) == []


def test_to_skip_is_to_refuse_nothing_and_to_score_nothing():
    skips = answer(preFilter={"Ports": {"code": "Skip"}})
    zeros = answer()
    zeros["scores"]["Ports"] = {"raw": [0, 0], "normalized": [0, 0], "weighted": [0, 0]}
    zeros["filter"]["Ports"] = []

    assert places(skips, zeros) == []


def test_any_of_the_best_nodes_may_be_chosen():
    tie = answer(totals=[50, 50], outcome={"host": "a"})

    assert places(tie, answer(totals=[50, 50], outcome={"host": "b"})) == []


def test_a_nominated_node_outside_may_be_reported_differently():
    said = {"message": "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [A B]."}
    plain = {"message": "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [A]."}
    nominated = POD | {"status": {"nominatedNodeName": "a"}}

    assert places(answer(outcome=said), answer(outcome=plain)) == ["outcome"]
    assert places(answer(outcome=said), answer(outcome=plain), nominated) == []


def test_of_errors_only_that_they_happen_counts():
    assert places({"outcome": {"error": "x"}}, {"outcome": {"error": "y"}}) == []


def test_of_an_error_within_a_message_only_whose_it_is_counts():
    def said(plugin, why):
        message = (
            f'0/1 nodes are available: 1 x. preemption: running "{plugin}" filter plugin: {why}'
        )
        return answer(outcome={"message": message})

    assert places(said("Volumes", "of one pod"), said("Volumes", "of another")) == []
    assert places(said("Volumes", "of one pod"), said("Ports", "of one pod")) == ["outcome"]


def test_a_node_that_cannot_be_judged_is_an_error_for_both():
    broken = answer(combined=[refusal(0, code="Error")], feasible=[1])
    ours = {key: said for key, said in answer().items() if key in {"filter", "outcome"}}

    assert places(broken, ours) == []
    assert places(broken, answer(combined=[])) == ["combined"]
    assert (
        places(
            answer(filter={"Fit": [refusal(0, code="Error")]}),
            answer(filter={"Fit": [refusal(0, code="Error", reason="other words")]}),
        )
        == []
    )


@pytest.mark.parametrize("made", ["", "a", "b"])
def test_where_room_is_made_is_compared(made):
    theirs = {"message": "0/2 nodes", "nominates": "b"}

    found = places(answer(outcome=theirs), answer(outcome=theirs | {"nominates": made}))

    assert found == ([] if made == "b" else ["outcome"])


def test_who_narrows_names_all_the_same_nodes_or_none():
    """The oracle leaves an empty list out."""
    nobody = answer(preFilter={"Picky": {"code": "Success"}})

    assert places(nobody, answer(preFilter={"Picky": {"code": "Success", "only": []}})) == []
    assert places(nobody, answer(preFilter={"Picky": {"code": "Success", "only": ["a"]}})) == [
        "preFilter Picky"
    ]


def test_the_texts_of_messages_have_to_occur_too():
    coverage = Coverage()
    said = {"message": "0/1 nodes are available: pod affinity terms conflict. not found"}
    coverage.count({"outcome": said}, nodes=1)

    missing = list(coverage.missing({"DefaultPreemption"}, least=1))

    assert "DefaultPreemption accepts: 0 of 1" in missing
    assert any("No preemption victims" in line for line in missing)
    assert not any("not found" in line for line in missing)


def test_what_occurs_too_rarely_is_named():
    coverage = Coverage()
    for _ in range(2):
        coverage.count({"outcome": {"host": "a"}, "filter": {"NodeName": []}}, nodes=2)

    assert list(coverage.missing({"NodeName"}, least=2)) == [
        "NodeName refuses: 0 of 2",
        'NodeName says "node(s) didn\'t match the requested node name": 0 of 2',
    ]
    assert list(coverage.missing({"NodeName"}, least=0)) == []


def test_a_question_shrinks_to_what_makes_the_difference():
    question = make_question(1, 3)
    question.pods = question.pods[:1]
    guilty = question.objects[-1]["metadata"]["name"]

    def differs(asked: Question) -> bool:
        return any(each["metadata"]["name"] == guilty for each in asked.objects)

    small = Shrinker(differs).shrink(question)

    assert [each["metadata"]["name"] for each in small.objects] == [guilty]
    assert not small.objects[0]["metadata"].get("labels")
    assert len(question.objects) > 1, "the question itself stays as it was"
