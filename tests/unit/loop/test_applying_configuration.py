"""Another configuration for a loop that runs: between two pods, and nobody is lost."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from scheduler.config.document import Extender
from scheduler.framework.extender_protocol import ResponseBody
from scheduler.framework.rejection import Allow, Gate, Reject, Rejection, Wait
from scheduler.kube.extenders import Extenders
from scheduler.loop.core import LoopConfiguration
from scheduler.queue.queue_settings import QueueSettings
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import pod_path
from scheduler.testing.harness import Harness, bare_profile
from tests.unit.binding.plugins import Doorman


class Nobody:
    """Refuses every node, and waits for nothing."""

    name = "Nobody"
    requeue_on = ()

    def filter(self, _pod, nodes):
        return (Rejection(np.ones(len(nodes), dtype=np.bool_), "nobody may"),)


class Closed:
    """Lets no pod into the queue."""

    name = "Closed"
    requeue_on = ()

    def pre_enqueue(self, _pod):
        return Gate("closed")


class ByName:
    """Sorts by a key of another kind than priorities are."""

    name = "ByName"

    def sort_key(self, pod):
        return pod.name


@pytest.fixture
def pod():
    return make_pod(requests="1 cpu")


def now():
    return asyncio.get_running_loop().time()


def profile(*plugins, name="py-scheduler", generation=1):
    return replace(bare_profile(*plugins), scheduler_name=name, generation=generation)


async def apply(cluster, *profiles, **settings):
    """Post the change to the loop, as the reloader does, and let it happen."""
    found = []
    setup = LoopConfiguration({profile.scheduler_name: profile for profile in profiles}, **settings)
    core = cluster.core
    core.inbox.put(lambda: found.append(core.apply_configuration(setup, now())))
    await cluster.settle()
    core.queue.check_invariants()
    return found[0]


@asynccontextmanager
async def tried_by(plugin, pod):
    """Run a scheduler of *plugin* alone that has just met *pod*; there is room on node a."""
    async with Harness(profiles=[bare_profile(plugin)]) as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        yield cluster


async def say(cluster, doorman, answer, seconds=0.5):
    """Let *doorman* change its mind, and a fact arrive for which it is asked again."""
    doorman.said = answer
    cluster.create(make_node("b"))
    await cluster.settle(seconds)


@in_virtual_time
async def test_who_was_refused_is_tried_by_the_new_plugins(pod):
    async with tried_by(Nobody(), pod) as cluster:
        assert cluster.state_of(pod) == "unschedulable"

        await apply(cluster, profile())
        await cluster.settle(3)

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_new_gate_closes_for_whoever_waits(pod):
    async with tried_by(Nobody(), pod) as cluster:
        await apply(cluster, profile(Closed()))
        assert cluster.state_of(pod) == "gated"

        await apply(cluster, profile(generation=2))
        await cluster.settle(3)
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_pods_without_a_profile_wait_outside_until_there_is_one(pod):
    other = make_pod("other", scheduler="other", requests="1 cpu")
    async with Harness(profiles=[bare_profile(Nobody())]) as cluster:
        cluster.create(make_node("a"), pod, other)
        await cluster.settle()
        assert cluster.state_of(other) == ""

        applied = await apply(cluster, profile(name="other"))

        assert (applied.adopted, applied.dismissed) == (1, 1)
        assert cluster.node_of(other) == "a"
        assert cluster.state_of(pod) == ""

        late = make_pod("late", requests="1 cpu")
        cluster.create(late)
        await cluster.settle()
        applied = await apply(cluster, profile(generation=2))
        assert (applied.adopted, applied.dismissed) == (2, 0)
        assert [cluster.node_of(each) for each in (pod, late)] == ["a", "a"]


@in_virtual_time
async def test_what_goes_while_nobody_serves_it_does_not_come_back(pod):
    async with tried_by(Nobody(), pod) as cluster:
        await apply(cluster, profile(name="other"))

        cluster.api.remove(pod_path(pod))
        await cluster.settle()

        applied = await apply(cluster, profile(generation=2))
        assert applied.adopted == 0


@in_virtual_time
async def test_who_is_held_is_let_go_by_the_plugin_that_held_it(pod):
    doorman = Doorman(Wait(60))
    async with tried_by(doorman, pod) as cluster:
        await apply(cluster, profile())
        assert cluster.node_of(pod) == ""
        assert cluster.state_of(pod) == "in flight"

        await say(cluster, doorman, Allow())
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_who_was_sent_by_an_extender_is_bound_by_that_one(pod):
    """Another might count what the first has never told it of."""
    asked = []

    def binding(url):
        async def ask(question):
            asked.append((url, question.verb))
            return ResponseBody(b"{}")

        return Extenders((Extender(url_prefix=url, bind_verb="bind"),), ask)

    doorman = Doorman(Wait(60))
    first, second = binding("http://first"), binding("http://second")
    async with Harness(profiles=[bare_profile()]) as cluster:
        held = profile(doorman)
        await apply(cluster, held, extenders=first)
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        await apply(cluster, profile(generation=2), extenders=second)
        assert asked == []
        assert cluster.core.binding.uses(first)
        assert not cluster.core.binding.uses(second)

        await say(cluster, doorman, Allow())
        assert asked == [("http://first", "bind")]
        assert not cluster.core.binding.uses(first)

        cluster.create(make_pod("later"))
        await cluster.settle()
        assert asked == [("http://first", "bind"), ("http://second", "bind")]


@in_virtual_time
async def test_who_is_held_without_a_profile_is_still_bound(pod):
    doorman = Doorman(Wait(60))
    async with tried_by(doorman, pod) as cluster:
        await apply(cluster, profile(name="other"))

        await say(cluster, doorman, Allow())

        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_a_waiting_pod_without_a_profile_that_is_rejected_stays_out_of_the_queue(pod):
    doorman = Doorman(Wait(60))
    async with tried_by(doorman, pod) as cluster:
        await apply(cluster, profile(name="other"))

        await say(cluster, doorman, Reject("not today"), seconds=20)
        assert cluster.state_of(pod) == ""
        assert not cluster.core.cache.is_assumed(pod.uid)
        assert not cluster.core.queue.nominated_pods()

        applied = await apply(cluster, profile(generation=2))
        assert applied.adopted == 1
        assert cluster.node_of(pod)


@in_virtual_time
async def test_the_end_of_a_held_pod_without_a_profile_frees_its_place(pod):
    async with Harness(profiles=[bare_profile(Doorman(Wait(600)))]) as cluster:
        cluster.create(make_node("a", allocatable="1 cpu"), pod)
        await cluster.settle()
        await apply(cluster, profile(name="other"))

        cluster.api.remove(pod_path(pod))
        await cluster.settle()

        assert not cluster.core.cache.is_assumed(pod.uid)
        assert cluster.core.binding.in_flight == 0


@in_virtual_time
async def test_a_stopped_profile_gets_another_chance(pod):
    async with Harness(profiles=[bare_profile(Nobody())]) as cluster:
        cluster.core.supervisor.stopped["py-scheduler"] = "because"
        cluster.create(make_node("a"), pod)
        await cluster.settle()
        assert cluster.state_of(pod) == "unschedulable"

        await apply(cluster, profile())
        await cluster.settle(3)

        assert cluster.core.supervisor.check() is None
        assert cluster.node_of(pod) == "a"


@in_virtual_time
async def test_backoffs_count_for_failures_from_now_on():
    async with Harness(profiles=[bare_profile()]) as cluster:
        settings = QueueSettings(40, 80)
        await apply(cluster, profile(), queue=settings)

        backoff = cluster.core.queue._states.backoff
        assert [backoff.wait_seconds(failures) for failures in (1, 2, 3)] == [40, 80, 80]


@in_virtual_time
async def test_many_pods_change_their_profile_together():
    pods = [make_pod(f"pod-{number}") for number in range(1500)]
    async with Harness(profiles=[bare_profile()], may_act=lambda: False) as cluster:
        cluster.create(*pods)
        await cluster.settle()

        applied = await apply(cluster, profile(name="other"))
        assert (applied.dismissed, len(cluster.core.queue)) == (1500, 0)

        applied = await apply(cluster, profile(Closed(), generation=2))
        assert (applied.adopted, cluster.core.queue.counts()["gated"]) == (1500, 1500)

        await apply(cluster, profile(generation=3))
        assert cluster.core.queue.counts()["active"] == 1500


@in_virtual_time
async def test_an_order_of_another_kind_counts_for_whoever_waits():
    pods = [make_pod(name) for name in ("c", "a", "b")]
    async with Harness(profiles=[bare_profile()], may_act=lambda: False) as cluster:
        cluster.create(make_node("n"), *pods)
        await cluster.settle()

        await apply(cluster, replace(profile(), queue_sort=ByName()))

        queue = cluster.core.queue
        assert [queue.pop(now()).pod.name for _ in pods] == ["a", "b", "c"]
        for each in pods:
            queue.done(each.uid)
