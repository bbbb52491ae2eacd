"""Whether pods of other schedulers may have to go, as a profile says."""

import pytest

from scheduler.config.configuration import read
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Park, Preempt
from scheduler.framework.registry import Registry
from scheduler.plugins import IN_TREE
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import table_of

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SPARES = "pluginConfig: [{name: DefaultPreemption, args: {preemptForeignPods: false}}]"


def profile(*, spares):
    """Build the first of two profiles."""
    first = "{schedulerName: py-scheduler" + (f", {SPARES}}}" if spares else "}")
    registry = Registry(IN_TREE)
    document = read(f"{HEAD}profiles: [{first}, {{schedulerName: other-profile}}]")
    return registry.build(document.resolve(registry.available).profiles[0])


def decision(*schedulers, spares):
    """Decide about an important pod on a node that one pod of each of *schedulers* fills."""
    there = [
        make_pod(f"low-{name}", requests="1 cpu", node="a", scheduler=name) for name in schedulers
    ]
    nodes = [make_node("a", allocatable=f"{len(there)} cpu")]
    pod = make_pod("high", requests="1 cpu", priority=9)
    return decide(Attempt(profile(spares=spares), pod, table_of(nodes, there), {}))


@pytest.mark.parametrize(
    ("scheduler", "spares", "goes"),
    [
        ("default-scheduler", False, True),
        ("default-scheduler", True, False),
        ("py-scheduler", True, True),
        ("other-profile", True, True),
    ],
)
def test_foreign_is_who_names_none_of_the_profiles(scheduler, spares, goes):
    assert isinstance(decision(scheduler, spares=spares), Preempt if goes else Park)


def test_own_pods_are_victims_where_foreign_ones_are_not():
    found = decision("default-scheduler", "py-scheduler", spares=True)

    assert isinstance(found, Preempt)
    assert [pod.name for pod in found.victims] == ["low-py-scheduler"]


def test_without_victims_the_message_is_upstreams():
    found = decision("default-scheduler", spares=True)

    assert found.message.endswith("1 No preemption victims found for incoming pod.")
