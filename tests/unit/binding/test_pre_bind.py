"""What plugins want done and wait for before a pod is bound."""

import pytest

from scheduler.errors import Forbidden, Throttled
from scheduler.framework.effects import Patch, PostBinding, WaitUntil
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness
from scheduler.testing.simulated_api import Delay, Lose, Refuse
from tests.unit.binding.plugins import Clerk

BINDING = r"/pods/[^/]+/binding$"
CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/data"
PATCH = Patch(CLAIM, {"spec": {"node": "a"}}, undo={"spec": {"node": None}})


def with_claim(cluster):
    metadata = {"name": "data", "resourceVersion": "1"}
    cluster.api.documents[CLAIM] = {"metadata": metadata, "spec": {}}


@in_virtual_time
async def test_pre_bind_patches_and_annotations():
    clerk = Clerk(effects=[PATCH, PostBinding({"example.com/rank": "7"})])
    async with Harness(clerk) as cluster:
        with_claim(cluster)
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.api.documents[CLAIM]["spec"] == {"node": "a"}
        assert cluster.document(pod)["metadata"]["annotations"] == {"example.com/rank": "7"}


@in_virtual_time
async def test_a_patch_that_is_put_off_is_no_failed_attempt():
    """However often the API server says "later"; what comes after the patch waits as well."""
    async with Harness(Clerk(effects=[PATCH, PostBinding({"rank": "7"})])) as cluster:
        with_claim(cluster)
        later = Refuse(Throttled("slow down", retry_after_seconds=2))
        cluster.api.plan("PATCH", "/data$", *[later] * 5)
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(9.9)
        assert cluster.node_of(pod) == ""

        await cluster.settle(2)

        assert cluster.api.documents[CLAIM]["spec"] == {"node": "a"}
        assert cluster.node_of(pod) == "a"
        assert cluster.attempts("error") == 0
        assert len(cluster.api.requests_to("PATCH", "/data$")) == 6


@in_virtual_time
async def test_a_patch_that_is_put_off_for_too_long_is_given_up():
    async with Harness(Clerk(effects=[PATCH])) as cluster:
        with_claim(cluster)
        later = Refuse(Throttled("slow down", retry_after_seconds=40))
        cluster.api.plan("PATCH", "/data$", later, later, later)
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(50)

        assert cluster.condition(pod) == ("False", "SchedulerError", "slow down")
        assert cluster.attempts("error") == 1
        assert cluster.node_of(pod) == ""


@in_virtual_time
async def test_a_patch_that_is_put_off_is_not_made_for_a_pod_that_is_gone():
    async with Harness(Clerk(effects=[PATCH])) as cluster:
        with_claim(cluster)
        cluster.api.plan("PATCH", "/data$", Refuse(Throttled("slow down", retry_after_seconds=5)))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(1)
        cluster.api.remove(pod_path(pod))
        await cluster.settle(10)

        assert len(cluster.api.requests_to("PATCH", "/data$")) == 1
        assert cluster.api.documents[CLAIM]["spec"] == {}


@in_virtual_time
async def test_what_is_changed_back_is_put_off_as_well():
    async with Harness(Clerk(effects=[PATCH])) as cluster:
        with_claim(cluster)
        later = Refuse(Throttled("slow down", retry_after_seconds=3))
        cluster.api.plan("PATCH", "/data$", Delay(0), later, later)
        cluster.api.plan("POST", BINDING, Refuse(Forbidden("no", status=403)))
        cluster.create(make_node("a"), make_pod())
        await cluster.settle(5.9)
        assert cluster.api.documents[CLAIM]["spec"] == {"node": "a"}

        await cluster.settle(1)

        assert cluster.api.documents[CLAIM]["spec"] == {}


@pytest.mark.parametrize("fault", [Refuse(Forbidden("no", status=403)), Lose(executed=False), None])
@in_virtual_time
async def test_what_pre_bind_changed_is_changed_back_when_the_pod_is_not_bound(fault):
    """Also when it is the binding itself that fails."""
    late = WaitUntil(lambda _: "the disk broke", 1, "the disk")
    clerk = Clerk(effects=[PATCH] if fault else [PATCH, late])
    async with Harness(clerk) as cluster:
        with_claim(cluster)
        cluster.create(make_node("a"), pod := make_pod())
        if isinstance(fault, Lose):
            await cluster.settle(0)
            cluster.api.remove(pod_path(pod))
        elif fault:
            cluster.api.plan("POST", BINDING, fault)
        await cluster.settle()

        assert cluster.api.documents[CLAIM]["spec"] == {}


@in_virtual_time
async def test_a_pod_that_is_gone_and_there_again_sets_out_again():
    """As after a list from a server that went back in time, while a request of the first is out."""
    async with Harness(Clerk(effects=[PATCH])) as cluster:
        with_claim(cluster)
        cluster.api.plan("PATCH", "/data$", Delay(2), Delay(3))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(0.5)
        cluster.api.remove(pod_path(pod))
        await cluster.settle(0.5)
        cluster.create(pod)
        await cluster.settle(1.5)
        assert cluster.node_of(pod) == ""
        assert cluster.core.cache.is_assumed(pod.uid)
        cluster.check_invariants()
        await cluster.settle(5)

        assert cluster.node_of(pod) == "a"
        assert len(cluster.api.requests_to("POST", BINDING)) == 1
        assert cluster.api.documents[CLAIM]["spec"] == {"node": "a"}


@in_virtual_time
async def test_a_patch_whose_answer_is_lost_is_changed_back():
    """It may have taken effect; one that was refused has not."""
    for fault, requests in ((Lose(executed=True), 2), (Refuse(Forbidden("no", status=403)), 1)):
        async with Harness(Clerk(effects=[PATCH])) as cluster:
            with_claim(cluster)
            cluster.api.plan("PATCH", "/data$", fault)
            cluster.create(make_node("a"), make_pod())
            await cluster.settle(0.5)

            assert len(cluster.api.requests_to("PATCH", "/data$")) == requests
            assert cluster.api.documents[CLAIM]["spec"] == {}


@in_virtual_time
async def test_a_condition_is_asked_again_when_facts_arrive():
    seen = []

    def labelled(_):
        seen.append(True)
        return any(d["metadata"].get("labels", {}).get("ready") for d in cluster.api.pods())

    clerk = Clerk(effects=[WaitUntil(labelled, 60, "somebody who is ready")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(20)
        assert cluster.node_of(pod) == ""
        questions = len(seen)

        cluster.create(make_pod("helper", labels="ready=yes", scheduler="other", node="a"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert questions <= 3


@in_virtual_time
async def test_a_condition_that_never_holds_times_out():
    clerk = Clerk(effects=[WaitUntil(lambda _: False, 30, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(29)
        assert cluster.condition(pod) == ("", "", "")

        await cluster.settle(2)

        assert cluster.condition(pod) == (
            "False",
            "SchedulerError",
            'running PreBind plugin "Clerk": the volume did not happen within 30s',
        )


@pytest.mark.parametrize(
    "effects",
    [
        RuntimeError("boom"),
        [WaitUntil(lambda _: 1 / 0, 30, "x")],
        ["dance"],
        [Patch(CLAIM, {}, None)],
    ],
)
@in_virtual_time
async def test_a_pre_bind_that_fails_blames_the_plugin_and_leaves_the_pod_pending(effects):
    async with Harness(Clerk(effects=effects)) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod)[1] == "SchedulerError"
        assert (
            "Clerk" in cluster.condition(pod)[2]
            or "persistentvolumeclaims" in (cluster.condition(pod)[2])
        )
        assert cluster.state_of(pod) == "backoff"
        assert cluster.core.binding.in_flight == 0


@in_virtual_time
async def test_a_condition_that_breaks_later_blames_the_plugin():
    answers = iter([False])
    clerk = Clerk(effects=[WaitUntil(lambda _: next(answers), 30, "x")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()
        cluster.create(make_node("b"))
        await cluster.settle()

        assert cluster.condition(pod)[1] == "SchedulerError"
        assert "Clerk" in cluster.condition(pod)[2]
