"""Upstream's integration tests of preemption, on a real API server and with a kubelet.

What upstream calls a case, and where it is held here. Cases about gangs have none: pods of a
scheduling group are refused. Where no file is named, the test stands here or in
``test_async_preemption.py``.

==========================================================  ===================================
``test/integration/scheduler/preemption``                   here
==========================================================  ===================================
TestPreemption: basic pod preemption                        test_preemption: victims_are_evicted_…
… with PreFilter                                            what_a_pre_filter_refuses_is_helped
… with unresolvable PreFilter / filter                      an_unresolvable_rejection_evicts_no_pod
… preserve pods with anti-affinity                          both_that_keep_apart_go
… mutual pod anti-affinity, one of higher priority          no_pod_is_evicted_in_vain
TestAsyncPreemption: gated until all calls are done         the_pod_is_gated_until_all_victims_are…
… one victim                                                the_pod_is_gated_until_the_only_victim…
… lower pod cannot take the place                           test_preemption: freed_capacity_is_kept…
… higher pod picks the same victims                         the_highest_takes_the_same_victims
… two preempt at once, on one node                          two_share_a_node_and_not_its_victims
… victim in Bind, deleted / terminating                     a_victim_in_bind_is_evicted (2)
… victim's Reserve holds state                              a_victim_with_a_reservation_is_released…
… mid waits on a node that high takes                       a_pod_that_loses_its_nomination_finds…
TestPreemptionRespectsWaitingPod                            a_waiting_pod_is_not_deleted[permit]
TestPreemptionRespectsBindingPod                            a_waiting_pod_is_not_deleted[pre-bind]
TestNonPreemption                                           test_preemption: a_pod_that_never_…
TestDisablePreemption                                       without_the_plugin_no_pod_is_evicted
TestPodPriorityResolution                                   priorities_are_the_classes
TestPreemptionStarvation                                    the_waiting_do_not_starve_the…
TestPreemptionRaces                                         no_pod_takes_capacity_freed_for_another
TestPDBInPreemption                                         a_budget_decides_before_… (2),
                                                            budgets_and_then_priorities_…
TestReadWriteOncePodPreemption                              a_claim_for_one_pod_changes_hands (3)
TestNominatedNode: high preempts there                      test_preemption: a_more_important_pod…
… high fits beside                                          a_nomination_ends_where_another_fits
… node deleted / only a tainted node left                   a_nomination_ends_with_its_node (2)
… PreBind fails                                             a_nomination_ends_where_binding_fails
TestPreferNominatedNode: room on the nominated node         test_preemption: victims_are_evicted_…
… the nominated node fails a filter                         a_nominated_pod_is_bound_elsewhere…
TestPodGroupPreemption                                      (pods of groups are refused)
==========================================================  ===================================
"""

from __future__ import annotations

import pytest

from hack.api import ApiError
from tests.integration.ranks import (
    budget,
    condition,
    expect_gone,
    expect_nominated,
    filler,
    gone,
    nominated,
    pod,
    running,
    stays,
)
from tests.integration.storage import HOST, mounting
from tests.integration.world import configuration, scheduler_process, until

pytestmark = pytest.mark.integration


PLUGINS = '''
from scheduler import POD, Action, Allow, ClusterEvent, Refused, Requeue, Wait, WaitUntil, per_node


def _holders(pods):
    return [each for each in pods if "token" in each.labels]


@per_node
class Token:
    """There is one token: no node takes a pod that wants it while another on it has it."""

    name = "Token"
    requeue_on = (Requeue(ClusterEvent(POD, Action.DELETE)),)

    def pre_filter(self, pod, nodes):
        taken = any(_holders(nodes.pods_on(row)) for row in range(len(nodes)))
        if "token" in pod.labels and taken:
            return Refused("the token is taken", pod.labels["token"] != "for-good")

    def filter_node(self, pod, node):
        if "token" in pod.labels and _holders(node.pods):
            return Refused("the token is taken here", pod.labels["token"] != "for-good")


class Holds:
    """Holds pods where their label says, until it is taken off."""

    name = "Holds"

    def reserve(self, pod, node, nodes):
        return None

    def unreserve(self, pod, node):
        pass

    def permit(self, pod, node, waiting):
        return Wait(300) if pod.labels.get("held-at") == "permit" else Allow()

    def pre_bind(self, pod, node, nodes):
        if pod.labels.get("held-at") == "pre-bind":
            yield WaitUntil(lambda _: False, 300, "what never happens")
        if pod.labels.get("held-at") == "nowhere":
            yield WaitUntil(lambda _: "it is in vain", 300, "what never happens")
'''


@pytest.fixture
def with_plugins(world, tmp_path, monkeypatch):
    """A scheduler of its own, one of whose profiles has the plugins above."""
    (tmp_path / "preemption_plugins.py").write_text(PLUGINS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    named = [{"name": f"preemption_plugins:{each}"} for each in ("Token", "Holds")]
    profiles = [
        {"schedulerName": "plugged", "plugins": {"multiPoint": {"enabled": named}}},
        {
            "schedulerName": "meek",
            "plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}},
        },
    ]
    with scheduler_process(world.plane, config=configuration(profiles=profiles)) as started:
        yield started


def apart_from(app):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


# TestPreemption.


def test_what_a_pre_filter_refuses_is_helped(world, kubelet, with_plugins):
    """There is room enough; what stands in the way goes nevertheless."""
    world.nodes("a", cpu="4")
    low = running(world, pod(world, "low", labels={"token": "yes"}, scheduler="plugged"), "a")
    high = pod(world, "high", labels={"token": "yes"}, scheduler="plugged")

    world.expect_scheduled(high, on="a")
    expect_gone(world, low)


def test_an_unresolvable_rejection_evicts_no_pod(world, kubelet, with_plugins):
    world.nodes("a", cpu="4")
    low = running(world, pod(world, "low", labels={"token": "yes"}, scheduler="plugged"), "a")
    high = pod(world, "high", labels={"token": "for-good"}, scheduler="plugged")

    until(lambda: condition(world, high, "PodScheduled"), "it is refused")
    world.settle()
    assert not nominated(world, high)
    assert stays(world, low)


def test_both_that_keep_apart_go(world, kubelet):
    """The one because the pod objects to it, the other because it objects to the pod."""
    world.nodes("a", cpu="8")
    disliked = running(world, pod(world, "low", labels={"app": "db"}), "a")
    dislikes = running(world, pod(world, "low", affinity=apart_from("web")), "a")
    high = pod(world, "high", labels={"app": "web"}, affinity=apart_from("db"))

    world.expect_scheduled(high, on="a")
    expect_gone(world, disliked, dislikes)


def test_no_pod_is_evicted_in_vain(world, kubelet):
    """One of the two that keep it away is as important as the pod itself."""
    world.nodes("a", cpu="8")
    disliked = running(world, pod(world, "low", labels={"app": "db"}), "a")
    dislikes = running(world, pod(world, "high", affinity=apart_from("web")), "a")
    high = pod(world, "high", labels={"app": "web"}, affinity=apart_from("db"))

    until(lambda: condition(world, high, "PodScheduled"), "it is refused")
    world.settle()
    assert not nominated(world, high)
    assert stays(world, disliked, dislikes)


def test_a_victim_with_a_reservation_is_released_at_once(world, kubelet, with_plugins):
    world.nodes("a", cpu="2")
    held = pod(world, "low", cpu="2", scheduler="plugged", labels={"held-at": "permit"})
    expect_held(with_plugins, held)
    high = pod(world, "high", cpu="2", scheduler="plugged")

    running(world, high, "a")
    assert not gone(world, held)


# TestPreemptionRespectsWaitingPod, TestPreemptionRespectsBindingPod.


def expect_held(scheduler, name):
    until(lambda: scheduler.metric("scheduler_cache_size", type="assumed_pods") >= 1, f"{name}")


@pytest.mark.parametrize("where", ["permit", "pre-bind"])
def test_a_waiting_pod_is_not_deleted(world, kubelet, with_plugins, where):
    """It goes to the small node, where it is enough for it, and the pod to the large one."""
    world.nodes("large", cpu="2")
    held = pod(world, "low", scheduler="plugged", labels={"held-at": where})
    expect_held(with_plugins, held)
    world.change_pod(held, {"metadata": {"labels": {"held-at": None}}})
    world.settle()
    high = pod(world, "high", cpu="1500m", scheduler="plugged")
    running(world, high, "large")
    world.nodes("small", cpu="1")

    running(world, held, "small")
    (event,) = world.events(held, "Preempted")
    assert event["note"].endswith("on node large (in kube-scheduler memory).")


# misc.


def test_without_the_plugin_no_pod_is_evicted(world, kubelet, with_plugins):
    world.nodes("a", cpu="2")
    low = running(world, pod(world, "low", cpu="2"), "a")
    high = pod(world, "high", cpu="2", scheduler="meek")

    until(lambda: condition(world, high, "PodScheduled"), "it is refused")
    world.settle()
    assert condition(world, high, "PodScheduled")["message"].endswith(
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
    )
    assert stays(world, low)


@pytest.mark.parametrize(
    ("name", "priority"),
    [
        ("system-node-critical", 2000001000),
        ("system-cluster-critical", 2000000000),
        ("test-mid", 100),
    ],
)
def test_priorities_are_the_classes(world, kubelet, name, priority):
    world.nodes("a")
    created = world.pod(priorityClassName=name)

    world.expect_scheduled(created, on="a")
    assert world.read(created)["spec"]["priority"] == priority


def test_a_class_that_is_not_there_is_refused(world):
    with pytest.raises(ApiError, match="no PriorityClass with name foo was found"):
        world.pod("named", priorityClassName="foo")


def test_the_waiting_do_not_starve_the_important(world, kubelet):
    """Five run, five like them wait; who is more important does not wait behind those."""
    world.nodes("a", cpu="5")
    there = [running(world, pod(world, "mid"), "a") for _ in range(5)]
    waiting = [pod(world, "mid") for _ in range(5)]
    until(lambda: all(condition(world, each, "PodScheduled") for each in waiting), "five wait")
    high = pod(world, "high", cpu="5")

    running(world, high, "a")
    expect_gone(world, *there)
    assert not any(world.node_of(each) for each in waiting)


@pytest.mark.parametrize("again", range(5))
def test_no_pod_takes_capacity_freed_for_another(world, kubelet, again):
    """Twenty that come while victims end do not get the place (upstream's issue 72124)."""
    world.nodes("a", cpu="4")
    victims = [running(world, pod(world, "low", grace=1), "a") for _ in range(4)]
    high = pod(world, "high", cpu="4")
    others = [pod(world, "low") for _ in range(20)]

    running(world, high, "a")
    expect_gone(world, *victims)
    assert not any(world.node_of(each) for each in others)


# TestPDBInPreemption.


def test_a_budget_decides_before_priorities_on_one_node(world, kubelet):
    """Two of the least importance are protected: the one that is not goes, important as it is."""
    world.nodes("a", cpu="3")
    kept = [running(world, pod(world, "low", labels={"app": "db"}), "a") for _ in range(2)]
    victim = running(world, pod(world, "mid"), "a")
    budget(world, "db", {"app": "db"}, 2, minAvailable=2)

    world.expect_scheduled(pod(world, "high"), on="a")
    expect_gone(world, victim)
    assert stays(world, *kept)


def test_a_budget_decides_before_priorities_between_two_nodes(world, kubelet):
    world.nodes("a", "b", cpu="2")
    kept = filler(world, "low", "a", cpu="2", labels={"app": "db"})
    victim = filler(world, "mid", "b", cpu="2")
    budget(world, "db", {"app": "db"}, 1, minAvailable=1)

    world.expect_scheduled(pod(world, "high", cpu="2"), on="b")
    expect_gone(world, victim)
    assert stays(world, kept)


def test_budgets_and_then_priorities_decide_between_three_nodes(world, kubelet):
    """The first node would cost a violation, the second a more important pod, the third three."""
    world.nodes("a", "b", "c", cpu="3")
    one, two = {"app": "one"}, {"app": "two"}
    kept = [
        filler(world, "low", "a", labels=one),
        filler(world, "mid", "a", cpu="2"),
        filler(world, "low", "b"),
        filler(world, "mid", "b", cpu="2", labels=two),
    ]
    victims = [filler(world, "low", "c", labels=two) for _ in range(3)]
    budget(world, "one", one, 1, minAvailable=1)
    budget(world, "two", two, 4, minAvailable=1)

    world.expect_scheduled(pod(world, "high", cpu="3"), on="c")
    expect_gone(world, *victims)
    assert stays(world, *kept)


# TestReadWriteOncePodPreemption.


@pytest.mark.parametrize(
    ("holders", "wanted"),
    [
        ([("one",)], ("one",)),
        ([("one",), ("two",)], ("one", "two")),
        ([("one", "two")], ("one", "two")),
    ],
    ids=["one pod", "two pods", "one pod with two claims"],
)
def test_a_claim_for_one_pod_changes_hands(world, kubelet, storage, holders, wanted):
    world.nodes("a", cpu="8")
    of = storage.storage_class()
    for name in wanted:
        storage.volume(name, of, modes=("ReadWriteOncePod",))
        storage.claim(name, of, mode="ReadWriteOncePod")
    victims = [
        running(world, pod(world, "low", volumes=mounting(*claims)), "a") for claims in holders
    ]
    high = pod(world, "high", volumes=mounting(*wanted))

    world.expect_scheduled(high, on="a")
    expect_gone(world, *victims)


# TestNominatedNode, TestPreferNominatedNode.


def test_a_nomination_ends_where_another_fits(world, kubelet):
    """The more important pod needs nobody to go; what is left is too little for the nominee."""
    world.nodes("a", cpu="4")
    victim = running(world, pod(world, "low", cpu="2", grace=3), "a")
    mid = pod(world, "mid", cpu="3")
    expect_nominated(world, mid, "a")
    high = pod(world, "high", cpu="2")

    running(world, high, "a")
    expect_gone(world, victim)
    expect_nominated(world, mid, "")
    assert not world.node_of(mid)


@pytest.mark.parametrize("left", ["nothing", "a tainted node"])
def test_a_nomination_ends_with_its_node(world, kubelet, left):
    taints = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
    if left != "nothing":
        world.nodes("tainted", cpu="4", taints=taints)
    world.nodes("a", cpu="2")
    running(world, pod(world, "low", cpu="2", grace=600), "a")
    mid = pod(world, "mid", cpu="2")
    expect_nominated(world, mid, "a")

    world.delete_node("a")
    expect_nominated(world, mid, "")
    assert not world.node_of(mid)


def test_a_nomination_ends_where_binding_fails(world, kubelet, with_plugins):
    world.nodes("a", cpu="2")
    victim = running(world, pod(world, "low", cpu="2", grace=1), "a")
    mid = pod(world, "mid", cpu="2", scheduler="plugged", labels={"held-at": "nowhere"})
    expect_nominated(world, mid, "a")

    expect_gone(world, victim)
    expect_nominated(world, mid, "")
    assert not world.node_of(mid)


def test_a_nominated_pod_is_bound_elsewhere_if_its_node_rejects_it(world, kubelet):
    """Its node refuses it once its victims have gone; another takes it."""
    world.nodes("a", cpu="2")
    victim = running(world, pod(world, "low", cpu="2", grace=3), "a")
    mid = pod(world, "mid", cpu="2")
    expect_nominated(world, mid, "a")
    world.change_node("a", unschedulable=True)
    world.nodes("b", cpu="2")

    running(world, mid, "b")
    expect_gone(world, victim)
