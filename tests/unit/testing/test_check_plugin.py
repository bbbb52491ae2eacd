"""Plugins that keep the contract pass; each that breaks a rule is told which."""

import itertools
import re
import signal
import sys

import numpy as np
import pytest

from scheduler import (
    MAX_NODE_SCORE,
    MIN_MAX,
    PROPORTIONAL,
    REVERSED,
    Action,
    Allow,
    ClusterEvent,
    Failure,
    Gate,
    Only,
    PostBinding,
    Refused,
    Reject,
    Rejection,
    Requeue,
    Skip,
    Wait,
)
from scheduler.config.plugin_args import TYPED
from scheduler.plugins import IN_TREE
from scheduler.testing import check_plugin, make_node, make_pod


def plugin(**members):
    """Build a plugin with *members* and a name."""
    return type("Example", (), {"name": "Example", **members})()


def scoring(score, **members):
    return plugin(score=lambda self, pod, nodes: score(pod, nodes), **members)


def filtering(*answers, **members):
    return plugin(filter=lambda self, pod, nodes: [a(pod, nodes) for a in answers], **members)


def everywhere(nodes):
    return np.ones(len(nodes), dtype=np.bool_)


@pytest.mark.parametrize("name", sorted(set(IN_TREE) - {"DefaultBinder"}))
def test_plugins_that_come_with_the_scheduler_keep_the_contract(name):
    check_plugin(IN_TREE[name](TYPED[name]()) if name in TYPED else IN_TREE[name]())


GOOD = {
    "a mask for a score": scoring(lambda _, nodes: MAX_NODE_SCORE * nodes.labelled("a", "b")),
    "no opinion": scoring(lambda _, nodes: None),
    "raw scores that are normalised": scoring(
        lambda _, nodes: nodes.allocatable("memory"), normalize=PROPORTIONAL
    ),
    "the reverse": scoring(lambda _, nodes: nodes.pod_count, normalize=REVERSED),
    "stretched": scoring(lambda _, nodes: -nodes.allocatable("cpu"), normalize=MIN_MAX),
    "a label": filtering(
        lambda _, nodes: Rejection(nodes.labelled("a", "b"), "node(s) had a", resolvable=False),
        node_local=True,
        needs=("node.annotations", "Service", "nodemetrics.v1beta1.metrics.k8s.io"),
    ),
    "resolvable here and there": filtering(
        lambda _, nodes: Rejection(nodes.unschedulable, "no", resolvable=nodes.pod_count > 0)
    ),
    "a generator": plugin(filter=lambda self, pod, nodes: iter(())),
    "only some": plugin(pre_filter=lambda self, pod, nodes: Only(frozenset({"node-1"}))),
    "refused for all": plugin(pre_filter=lambda self, pod, nodes: Refused("the moon is full")),
    "nothing to say": plugin(
        pre_filter=lambda self, pod, nodes: Skip(), filter=lambda self, pod, nodes: 1 / 0
    ),
    "after the choice": plugin(
        reserve=lambda self, pod, node, nodes: None,
        unreserve=lambda self, pod, node: None,
        permit=lambda self, pod, node, waiting: Wait(5.0) if waiting else Allow(),
        pre_bind=lambda self, pod, node, nodes: [PostBinding({"why": node})],
    ),
    "before the queue": plugin(pre_enqueue=lambda self, pod: Gate("later")),
    "order": plugin(sort_key=lambda self, pod: (-pod.priority, pod.name)),
    "a hint": filtering(
        requeue_on=(
            Requeue(ClusterEvent("Node", Action.ADD), lambda pod, change: change.new is not None),
        )
    ),
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD.keys())
def test_a_plugin_that_keeps_the_contract_passes(good):
    check_plugin(good)


_calls = itertools.count()


def _write_into(nodes):
    free = nodes.allocatable("cpu")
    free -= 1
    return free


def _relabel(pod):
    pod.labels["seen"] = str(next(_calls))


def _one_hint(hint):
    return filtering(requeue_on=(Requeue(ClusterEvent("Node", Action.ADD), hint),))


BAD = {
    "no name": (type("Nameless", (), {"sort_key": lambda *_: 1})(), "'Nameless'.*needs a name"),
    "no point": (plugin(scoer=len), "serves no extension point; is a method misspelled"),
    "not an array": (scoring(lambda _, nodes: [0] * len(nodes)), "score answered with list"),
    "floats": (scoring(lambda _, nodes: nodes.pod_count / 2), "in float64, not in int64"),
    "a mask is no score": (scoring(lambda _, nodes: nodes.unschedulable), "in bool, not in int64"),
    "one answer for all": (scoring(lambda *_: np.array([5])), r"shape \(1,\) about 8 rows"),
    "too much": (scoring(lambda _, nodes: nodes.pod_count + 100), "scored 10[0-9] for pod"),
    "too little": (scoring(lambda _, nodes: -nodes.pod_count), "scored -[0-9]+ for pod"),
    "row numbers": (scoring(lambda _, nodes: np.arange(len(nodes)) % 7), "rows in another order"),
    "moods": (
        scoring(lambda _, nodes: np.full(len(nodes), next(_calls) % 2)),
        "the same question twice",
    ),
    "not so local": (
        scoring(
            lambda _, nodes: np.full(len(nodes), len(nodes)),
            node_local=True,
            normalize=PROPORTIONAL,
        ),
        "node_local is promised, but .* score",
    ),
    "by name": (
        scoring(
            lambda pod, nodes: np.full(len(nodes), len(pod.name), dtype=np.int64), node_local=True
        ),
        "one pod and another of its template",
    ),
    "one mask for all": (
        filtering(lambda _, nodes: Rejection(np.ones(3, dtype=np.bool_), "no")),
        r"filter answered in shape \(3,\) about 8 rows",
    ),
    "numbers for a mask": (
        filtering(lambda _, nodes: Rejection(nodes.pod_count, "no")),
        "filter answered in int64, not in bool",
    ),
    "resolvable of another shape": (
        filtering(lambda _, nodes: Rejection(everywhere(nodes), "no", np.ones(2, dtype=np.bool_))),
        r"filter \(resolvable\) answered in shape \(2,\)",
    ),
    "no reason": (filtering(lambda _, nodes: Rejection(everywhere(nodes), " ")), "for a reason"),
    "no reason to fail": (
        filtering(lambda _, nodes: Failure(everywhere(nodes), "")),
        "for a reason",
    ),
    "a bare mask": (filtering(lambda _, nodes: everywhere(nodes)), "not a Rejection or Failure"),
    "a single rejection": (
        plugin(filter=lambda self, pod, nodes: Rejection(everywhere(nodes), "no")),
        "which nobody can iterate over",
    ),
    "writes into a column": (
        scoring(lambda _, nodes: _write_into(nodes)),
        "read-only.*belong to everybody: work on a copy",
    ),
    "writes into the pod": (
        scoring(lambda pod, nodes: _relabel(pod)),
        "it changed what it was given",
    ),
    "raises": (
        filtering(lambda pod, nodes: 1 // 0),
        "filter raised ZeroDivisionError: integer division or modulo by zero",
    ),
    "looks at other worlds": (
        filtering(
            lambda _, nodes: Rejection(
                nodes.pod_count >= max(3, nodes.pod_count.min(initial=99) + 3), "crowded"
            )
        ),
        "every row must be its own world: .* with a pod more",
    ),
    "remembers who was there": (
        filtering(
            lambda _, nodes: Rejection(
                np.maximum(nodes.pod_count, nodes.cluster.pod_count) > 2, "crowded"
            ),
            each_world=True,
        ),
        "every row must be its own world: .* without its pods",
    ),
    "strange pre_filter": (
        plugin(pre_filter=lambda self, pod, nodes: False),
        "pre_filter answered False; it is None, Skip",
    ),
    "nodes by number": (
        plugin(pre_filter=lambda self, pod, nodes: Only([3])),
        r"pre_filter answered Only\(names=\[3\]\)",
    ),
    "pre_filter without a reason": (
        plugin(pre_filter=lambda self, pod, nodes: Refused("")),
        "pre_filter gave '' for a reason",
    ),
    "failing pre_filter": (
        plugin(pre_filter=lambda self, pod, nodes: Failure(everywhere(nodes), "broken")),
        "pre_filter failed: broken",
    ),
    "strange gate": (plugin(pre_enqueue=lambda self, pod: "no"), "it is None or Gate"),
    "gate without a reason": (plugin(pre_enqueue=lambda self, pod: Gate("")), "for a reason"),
    "moody gate": (
        plugin(pre_enqueue=lambda self, pod: Gate(str(next(_calls)))),
        "pre_enqueue gave two answers",
    ),
    "no order": (
        plugin(sort_key=lambda self, pod: pod.name if pod.labels else 1),
        "comparing the answers of sort_key raised TypeError",
    ),
    "moody order": (plugin(sort_key=lambda self, pod: next(_calls)), "sort_key gave two answers"),
    "strange permit": (
        plugin(permit=lambda self, pod, node, waiting: None),
        "permit answered None; it is Allow",
    ),
    "waits for no time": (
        plugin(permit=lambda self, pod, node, waiting: Wait(0)),
        "permit wants to wait 0 seconds",
    ),
    "rejects without a reason": (
        plugin(permit=lambda self, pod, node, waiting: Reject("")),
        "permit gave '' for a reason",
    ),
    "strange effect": (
        plugin(pre_bind=lambda self, pod, node, nodes: [print]),
        "pre_bind yielded .*, not an effect",
    ),
    "strange reservation": (
        plugin(reserve=lambda self, pod, node, nodes: True, unreserve=lambda self, pod, node: None),
        "reserve answered True",
    ),
    "reserve alone": (
        plugin(reserve=lambda self, pod, node, nodes: None),
        "it has reserve and no unreserve",
    ),
    "ends the process": (
        filtering(lambda pod, nodes: sys.exit(3)),
        "filter raised SystemExit: 3",
    ),
    "comes to no end": (
        filtering(lambda pod, nodes: _endless()),
        "stalled: it gave no answer in filter for 1s",
    ),
    "one text for needs": (filtering(needs="node.annotations"), "needs is one text"),
    "unreserve of what was never reserved": (
        plugin(
            reserve=lambda self, pod, node, nodes: None,
            unreserve=lambda self, pod, node: {}.pop(pod.uid),
        ),
        "unreserve raised KeyError",
    ),
    "unknown need": (filtering(needs=("Unicorn",)), "needs names 'Unicorn', which nobody knows"),
    "no requeue": (filtering(requeue_on=("Node",)), "requeue_on holds 'Node', not a Requeue"),
    "hint without an object": (
        _one_hint(lambda pod, change: change.new.name == "a"),
        "a hint of requeue_on raised AttributeError",
    ),
    "hint without an answer": (_one_hint(lambda pod, change: None), "it is true or false"),
}


def _endless():
    while True:
        pass


@pytest.mark.parametrize(("bad", "told"), BAD.values(), ids=BAD.keys())
def test_a_broken_rule_is_named_with_the_plugin(bad, told):
    with pytest.raises(AssertionError) as caught:
        check_plugin(bad)

    assert str(caught.value).startswith("plugin '")
    assert re.search(told, str(caught.value)), str(caught.value)


def test_a_pre_bind_may_act_and_is_not_asked_here():
    async def pre_bind(self, pod, node, nodes):
        raise AssertionError

    check_plugin(plugin(pre_bind=pre_bind))


def test_an_asynchronous_method_is_recognised_at_once():
    async def score(self, pod, nodes):
        pass

    with pytest.raises(AssertionError, match="score is async; plugins decide in plain functions"):
        check_plugin(plugin(score=score))


def test_labels_that_only_the_plugin_knows_are_found_by_listening():
    """The empty reason shows only on a node that is rejected, and no usual node has the label."""
    silent = filtering(
        lambda _, nodes: (
            Rejection(nodes.labelled("acme.com/x", "7"), "fine")
            if not nodes.labelled("acme.com/x", "7").any()
            else Rejection(nodes.labelled("acme.com/x", "7"), "")
        )
    )

    with pytest.raises(AssertionError, match="for a reason"):
        check_plugin(silent)


def test_the_author_can_bring_the_pods_and_nodes_that_matter():
    def score(pod, nodes):
        found = [nodes.node(row).metadata.labels.get("size") for row in range(len(nodes))]
        return np.array([101 if pod.name == "odd" and size else 0 for size in found], np.int64)

    strict = scoring(score)
    check_plugin(strict, nodes=[make_node("sized", labels="size=l")])

    with pytest.raises(AssertionError, match="scored 101 for pod 'odd'"):
        check_plugin(strict, pods=[make_pod("odd")], nodes=[make_node("sized", labels="size=l")])


@pytest.mark.parametrize("case", ["comes to no end", "ends the process"])
def test_an_alarm_that_was_set_before_is_restored(case):
    """As pytest-timeout has, which breaks off a test that hangs."""
    rung = []
    mine = lambda *_: rung.append(1)  # noqa: E731 - compared below
    handler = signal.signal(signal.SIGALRM, mine)
    before = signal.setitimer(signal.ITIMER_REAL, 200, 300)
    try:
        with pytest.raises(AssertionError):
            check_plugin(BAD[case][0])
        assert signal.getsignal(signal.SIGALRM) is mine
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 200
        assert interval == 300
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *before)
    assert not rung
