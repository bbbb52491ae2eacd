"""From a decision to a bound pod: the real loop around a simulated API server."""

import pytest

from scheduler.errors import Forbidden, Throttled, Unreachable
from scheduler.framework.effects import Patch, PostBinding, WaitUntil
from scheduler.framework.rejection import Failure, Reject
from scheduler.loop.control_loop import LoopSettings
from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness, bare_profile
from scheduler.testing.simulated_api import Delay, Lose, Refuse
from tests.unit.loop.plugins import Clerk

BINDING = r"/pods/[^/]+/binding$"


@in_virtual_time
async def test_a_pod_is_bound_and_told_so():
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod := make_pod(requests="1 cpu"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"
        assert cluster.events_of(pod) == [("Scheduled", "Successfully assigned default/pod to a")]
        assert cluster.attempts("scheduled") == 1
        assert cluster.place_of(pod) == ""


async def two_for_one_place(cluster):
    """Let the first of two pods get the only place; its binding takes five seconds."""
    cluster.api.plan("POST", BINDING, Delay(5))
    first = make_pod("first", requests="1 cpu", priority=1)
    second = make_pod("second", requests="1 cpu")
    cluster.create(make_node("a", allocatable="1 cpu"), first, second)
    await cluster.settle()
    return first, second


@in_virtual_time
async def test_a_pod_is_assumed_before_it_is_posted():
    async with Harness() as cluster:
        first, second = await two_for_one_place(cluster)

        assert cluster.core.cache.is_assumed(first.uid)
        assert cluster.node_of(first) == ""
        assert cluster.place_of(second) == "unschedulable"
        assert cluster.condition(second)[2].startswith(
            "0/1 nodes are available: 1 Insufficient cpu."
        )

        await cluster.settle(5)

        assert cluster.node_of(first) == "a"
        assert not cluster.core.cache.is_assumed(first.uid)


@pytest.mark.parametrize(
    "lost",
    [
        Lose(executed=True),
        Lose(executed=False),
        Lose(executed=True, after_seconds=3),
        Refuse(Unreachable("POST: 500", status=500)),
    ],
)
@in_virtual_time
async def test_a_lost_answer_is_neither_success_nor_failure(lost):
    """The assumption stays until the pod was read back, and the pod is bound once."""
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, lost)
        cluster.create(make_node("a"), pod := make_pod(requests="1 cpu"))
        await cluster.settle(0.01)
        assert cluster.core.cache.pod(pod.uid) is not None

        await cluster.settle(120)

        assert cluster.api.bound == [(pod.uid, "a")]
        assert cluster.attempts("scheduled") == 1
        assert cluster.attempts("error") == 0
        assert cluster.api.asked("GET", "/pods/pod$")


@in_virtual_time
async def test_patience_asked_for_is_no_failed_attempt():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Refuse(Throttled("slow down", retry_after_seconds=2)))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle(1.9)
        assert cluster.node_of(pod) == ""

        await cluster.settle(1)

        assert cluster.node_of(pod) == "a"
        assert cluster.attempts("error") == 0


@in_virtual_time
async def test_a_conflict_is_somebody_elses_decision():
    """The place is given back at once, and the pod is not posted again without a new decision."""
    async with Harness() as cluster:
        cluster.api.break_watch(Resource.POD)
        cluster.api.plan("POST", BINDING, Delay(0))
        cluster.create(make_node("a", allocatable="1 cpu"))
        await cluster.settle()
        cluster.api.tell_all(Resource.POD)
        cluster.create(pod := make_pod(requests="1 cpu"))
        cluster.api.break_watch(Resource.POD)
        cluster.api.change(pod_path(pod), lambda d: d["spec"].update(nodeName="b"))
        await cluster.settle(0.5)

        assert cluster.core.cache.pod(pod.uid) is None
        assert cluster.place_of(pod) == "backoff"
        assert len(cluster.api.asked("POST", BINDING)) == 1
        assert cluster.attempts("error") == 1

        cluster.api.tell_all(Resource.POD)
        await cluster.settle(10)

        assert cluster.place_of(pod) == ""
        assert cluster.core.cache.pod(pod.uid).node_name == "b"
        assert len(cluster.api.asked("POST", BINDING)) == 1
        assert cluster.api.bound == []


@in_virtual_time
async def test_a_refused_binding_is_retried_after_a_backoff():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Refuse(Forbidden("no binding for you", status=403)))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod) == (
            "False",
            "SchedulerError",
            'running Bind plugin "DefaultBinder": no binding for you',
        )
        assert cluster.place_of(pod) == "backoff"

        await cluster.settle(3)

        assert cluster.node_of(pod) == "a"
        assert cluster.core.queue.in_flight_counts()["PodPopped"] == 0


@in_virtual_time
async def test_deletion_frees_the_place_of_an_assumed_pod():
    async with Harness() as cluster:
        first, second = await two_for_one_place(cluster)
        assert cluster.place_of(second) == "unschedulable"

        cluster.api.condemn(pod_path(first))
        await cluster.settle(2)

        assert cluster.core.cache.pod(first.uid) is None
        assert cluster.node_of(second) == "a"

        cluster.api.remove(pod_path(first))
        await cluster.settle(10)

        assert cluster.place_of(first) == ""


@in_virtual_time
async def test_a_pod_that_vanished_while_it_was_bound_is_forgotten():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Delay(1))
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()
        cluster.api.remove(pod_path(pod))
        await cluster.settle(5)

        assert len(list(cluster.core.queue)) == 0
        assert cluster.core.cache.sizes()["pods"] == 0


@in_virtual_time
async def test_reservations_are_taken_back_in_reverse_also_those_never_reached():
    diary = []
    plugins = (
        Clerk("A", diary=diary),
        Clerk("B", diary=diary, reserve=Reject("no device")),
        Clerk("C", diary=diary),
    )
    async with Harness(*plugins) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert diary == [
            "A reserves",
            "B reserves",
            "C unreserves",
            "B unreserves",
            "A unreserves",
        ]
        assert cluster.condition(pod) == (
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 no device.",
        )
        assert cluster.core.cache.pod(pod.uid) is None
        assert cluster.place_of(pod) == "unschedulable"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Failure(None, "the store is down"), 'running Reserve plugin "Clerk": the store is down'),
        (ValueError("oops"), "plugin 'Clerk' raised ValueError in Reserve: oops"),
    ],
)
@in_virtual_time
async def test_a_reservation_that_fails_is_an_error(answer, message):
    async with Harness(Clerk(reserve=answer)) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod) == ("False", "SchedulerError", message)
        assert cluster.place_of(pod) == "backoff"


@in_virtual_time
async def test_what_an_unreserve_raises_stops_nobody():
    clerk = Clerk(reserve=Reject("no"))
    clerk.unreserve = lambda pod, node: 1 / 0
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod())
        await cluster.settle()

        assert cluster.condition(pod)[1] == "Unschedulable"
        assert cluster.core.cache.pod(pod.uid) is None


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
        assert len(cluster.api.asked("PATCH", "/data$")) == 6


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

        assert len(cluster.api.asked("PATCH", "/data$")) == 1
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
        assert len(cluster.api.asked("POST", BINDING)) == 1
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

            assert len(cluster.api.asked("PATCH", "/data$")) == requests
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
        assert cluster.place_of(pod) == "backoff"
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


@in_virtual_time
async def test_a_bind_that_waited_is_checked_once_more():
    """While the pod's volume was prepared another scheduler took the room."""
    ready = []
    clerk = Clerk(effects=[WaitUntil(lambda _: bool(ready), 60, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a", allocatable="2 cpu"), pod := make_pod(requests="2 cpu"))
        await cluster.settle()
        cluster.create(make_pod("thief", requests="1 cpu", node="a", scheduler="default-scheduler"))
        ready.append(True)
        await cluster.settle()

        assert cluster.api.asked("POST", BINDING) == []
        assert cluster.condition(pod)[2] == "node a was filled meanwhile: Insufficient cpu"


@in_virtual_time
async def test_a_bind_is_checked_for_a_place_among_the_pods_too():
    ready = []
    clerk = Clerk(effects=[WaitUntil(lambda _: bool(ready), 60, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a", allocatable={"pods": "1"}), pod := make_pod())
        await cluster.settle()
        cluster.create(make_pod("thief", node="a", scheduler="default-scheduler"))
        ready.append(True)
        await cluster.settle()

        assert cluster.condition(pod)[2] == "node a was filled meanwhile: Too many pods"


@in_virtual_time
async def test_a_bind_whose_node_is_gone_is_not_posted():
    ready = []
    clerk = Clerk(effects=[WaitUntil(lambda _: bool(ready), 60, "the volume")])
    async with Harness(clerk) as cluster:
        cluster.create(make_node("a"), pod := make_pod(requests="2 cpu"))
        await cluster.settle()
        ready.append(True)
        cluster.api.remove("/api/v1/nodes/a")
        await cluster.settle()

        assert cluster.api.asked("POST", BINDING) == []
        assert cluster.condition(pod)[2] == "node a is gone"


@in_virtual_time
async def test_what_no_filter_minds_does_not_stop_a_bind():
    """Whoever switches a filter off wants nodes to be overcommitted."""
    async with Harness(profiles=[bare_profile()]) as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"), pod := make_pod(requests="2 cpu"))
        await cluster.settle()

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_binds_in_flight_are_bounded():
    async with Harness(loop=LoopSettings(binds_in_flight=3)) as cluster:
        cluster.api.weather = lambda method, path: Delay(1) if path.endswith("/binding") else None
        cluster.create(make_node("a"), *(make_pod(f"p{index}") for index in range(9)))
        most = 0
        for _ in range(100):
            await cluster.settle(0.1)
            most = max(most, cluster.core.binding.in_flight)

        assert most == 3
        assert len(cluster.api.bound) == 9


@in_virtual_time
async def test_stopping_lets_posted_binds_end():
    async with Harness() as cluster:
        cluster.api.plan("POST", BINDING, Delay(5))
        cluster.create(make_node("a"), pod := make_pod(), late := make_pod("late"))
        await cluster.settle(0.001)
        cluster.core.loop.stop()
        cluster.create(never := make_pod("never"))
        await cluster.settle(60)

        assert cluster.node_of(pod) == "a"
        assert cluster.node_of(late) == "a"
        assert cluster.node_of(never) == ""
        assert cluster.running.done()
        assert cluster.attempts("scheduled") == 2
