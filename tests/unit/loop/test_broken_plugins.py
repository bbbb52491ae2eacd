"""Whatever a plugin by a user does wrong, pods of other profiles are placed, and it is named."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.framework.effects import Assume, Patch, PostBinding, WaitUntil
from scheduler.framework.rejection import Gate, Only, Proposal, Refused, Rejection, Wait
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import run
from scheduler.testing.harness import Harness, default_profile

PODS = 5


def leave():
    """End the process, as a library for command lines does."""
    raise SystemExit(3)


def broken(**methods):
    """Make a plugin named Broken; each method is what it answers, or what it does."""

    def method(answer):
        return lambda self, *question: answer(*question) if callable(answer) else answer

    made = {point: method(answer) for point, answer in methods.items()}
    return type("Broken", (), {"name": "Broken", **made})()


BROKEN = {
    "a gate that is a text": broken(pre_enqueue="no"),
    "a gate that ends the process": broken(pre_enqueue=lambda pod: leave()),
    "a gate without a reason": broken(pre_enqueue=Gate(None)),
    "a pre-filter that is a text": broken(pre_filter="no"),
    "a pre-filter that names a number": broken(pre_filter=Only(3)),
    "a pre-filter that ends the process": broken(pre_filter=lambda pod, nodes: leave()),
    "a refusal without a text": broken(pre_filter=Refused(None)),
    "a filter that ends the process": broken(filter=lambda pod, nodes: leave()),
    "a filter that is a number": broken(filter=3),
    "a filter of texts": broken(filter=["no"]),
    "a mask that is a list": broken(filter=lambda pod, nodes: [Rejection([True], "no")]),
    "a reason that is a number": broken(
        filter=lambda pod, nodes: [Rejection(np.ones(len(nodes), dtype=np.bool_), 3)]
    ),
    "a score that ends the process": broken(score=lambda pod, nodes: leave()),
    "a score that is a text": broken(score="much"),
    "scores of objects": broken(score=lambda pod, nodes: np.array([None] * len(nodes))),
    "a reservation that is true": broken(reserve=True, unreserve=None),
    "a reservation of texts": broken(reserve={"a": 1}, unreserve=None),
    "an assumption of nothing": broken(reserve=[Assume("Pod", None)], unreserve=None),
    "a reservation that ends the process": broken(
        reserve=lambda pod, node, nodes: leave(), unreserve=lambda pod, node: leave()
    ),
    "a permit that is a number": broken(permit=5),
    "a permit that waits for a text": broken(permit=Wait("long")),
    "a permit that ends the process": broken(permit=lambda pod, node, waiting: leave()),
    "an effect that is a number": broken(pre_bind=[1]),
    "effects that are a number": broken(pre_bind=1),
    "annotations that are a number": broken(pre_bind=[PostBinding(5)]),
    "annotations that are numbers": broken(pre_bind=[PostBinding({"a": 5})]),
    "a patch that is no JSON": broken(pre_bind=[Patch("/api/v1/pods", {"a": object()})]),
    "a patch of nothing": broken(pre_bind=[Patch(None, None)]),
    "a condition that is a text": broken(pre_bind=[WaitUntil("ready", 5, "it")]),
    "a condition that ends the process": broken(
        pre_bind=[WaitUntil(lambda nodes: leave(), 5, "it")]
    ),
    "a condition that raises": broken(pre_bind=[WaitUntil(lambda nodes: 1 // 0, 5, "it")]),
    "a time that is a text": broken(pre_bind=[WaitUntil(lambda nodes: False, "5", "it")]),
    "a way out that is a text": broken(
        filter=lambda pod, nodes: [Rejection(np.ones(len(nodes), dtype=np.bool_), "no")],
        post_filter="no",
    ),
    "a proposal of nothing": broken(
        filter=lambda pod, nodes: [Rejection(np.ones(len(nodes), dtype=np.bool_), "no")],
        post_filter=Proposal(None, None),
    ),
}


async def told(plugin):
    """Give a profile with *plugin*, and one without, pods; return how many the latter placed."""
    profiles = [
        replace(default_profile(plugin), scheduler_name="one"),
        replace(default_profile(), scheduler_name="two"),
    ]
    async with Harness(profiles=profiles) as cluster:
        cluster.create(make_node("a"), make_node("b"))
        ours, others = (
            [make_pod(f"{name}-{n}", scheduler=name) for n in range(PODS)]
            for name in ("one", "two")
        )
        cluster.create(*ours, *others)
        await cluster.settle(120)
        said = " ".join(cluster.condition(pod)[2] for pod in ours)
        failures = sum(
            sample.value
            for family in cluster.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "py_scheduler_plugin_failures_total"
            and sample.labels["plugin"] == "Broken"
        )
        return sum(bool(cluster.node_of(pod)) for pod in others), said, failures


@pytest.mark.parametrize("plugin", BROKEN.values(), ids=BROKEN.keys())
def test_no_plugin_takes_the_scheduler_down(plugin):
    placed, said, failures = run(told(plugin))

    assert placed == PODS
    assert "Broken" in said or failures, said
