"""Extenders at work: a web service beside a real API server, asked by a real scheduler."""

from __future__ import annotations

import pytest

from hack.nodes import node
from tests.integration.extender import Service
from tests.integration.world import configuration, scheduler_process, until

pytestmark = pytest.mark.integration

PROFILE = "extended"


@pytest.fixture
def with_extender(world):
    """Run a scheduler of its own with one extender."""

    def start(url, **fields):
        document = configuration(
            profiles=[{"schedulerName": PROFILE}], extenders=[{"urlPrefix": url, **fields}]
        )
        return scheduler_process(world.plane, config=document)

    return start


def annotated(name, **annotations):
    described = node(name, kwok=False)
    described["metadata"]["annotations"] = annotations
    return described


def test_an_extender_without_a_cache_gets_whole_objects_and_its_opinion_counts(
    world, with_extender
):
    """It judges by what the scheduler itself never reads."""
    for name, rack in (("a", "old"), ("b", "new"), ("c", "new")):
        world.post_node(annotated(name, rack=rack))
    world.await_known_nodes()

    def filters(body):
        kept = [
            each
            for each in body["Nodes"]["items"]
            if each["metadata"]["annotations"].get("rack") == "new"
        ]
        return {"Nodes": {"items": kept}, "FailedNodes": {"a": "rack is old"}}

    def scores(body):
        names = [each["metadata"]["name"] for each in body["Nodes"]["items"]]
        return [{"Host": name, "Score": 10 * (name == "c")} for name in names]

    service = Service(filter=filters, prioritize=scores)
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5}
    with service.serving() as url, with_extender(url, nodeCacheCapable=False, **verbs):
        pod = world.pod(scheduler=PROFILE, image="registry.example/app:1")
        world.expect_scheduled(pod, on="c")

    assert [verb for verb, _ in service.asked] == ["filter", "prioritize"]
    for _, body in service.asked:
        assert body["Pod"]["spec"]["containers"][0]["image"] == "registry.example/app:1"
        assert body["Pod"]["spec"]["serviceAccountName"] == "default", "as the API server has it"
    assert sorted(each["metadata"]["name"] for each in service.asked[1][1]["Nodes"]["items"]) == [
        "b",
        "c",
    ]


def test_an_extender_with_a_cache_gets_names_and_may_bind(world, with_extender):
    world.nodes("a", "b")

    def binds(body):
        world.bind(body["PodName"], body["Node"])
        return {}

    service = Service(filter=lambda body: {"NodeNames": ["b"]}, bind=binds)
    verbs = {"filterVerb": "filter", "bindVerb": "bind", "nodeCacheCapable": True}
    with service.serving() as url, with_extender(url, **verbs) as scheduler:
        pod = world.pod(scheduler=PROFILE)
        world.expect_scheduled(pod, on="b")
        scheduler.expect_line("pod.bound", pod=f"{world.namespace}/{pod}", node="b")

    (_, asked), (verb, bound) = service.asked
    assert (asked["Nodes"], sorted(asked["NodeNames"])) == (None, ["a", "b"])
    assert verb == "bind"
    uid = world.read(pod)["metadata"]["uid"]
    assert (bound["PodNamespace"], bound["PodUID"]) == (world.namespace, uid)


def test_an_extender_that_is_down_is_passed_over_only_if_it_may_be(world, with_extender):
    world.nodes("a")
    nowhere = "http://127.0.0.1:9"

    with with_extender(nowhere, filterVerb="filter", ignorable=True):
        world.expect_scheduled(world.pod(scheduler=PROFILE), on="a")
    with with_extender(nowhere, filterVerb="filter"):
        pod = world.pod(scheduler=PROFILE)

        def condition():
            said = world.read(pod)["status"].get("conditions", ())
            return next((each for each in said if each["type"] == "PodScheduled"), None)

        until(condition)
        assert condition()["reason"] == "SchedulerError"
        assert f'extender "{nowhere}/filter" gave no answer' in condition()["message"]
