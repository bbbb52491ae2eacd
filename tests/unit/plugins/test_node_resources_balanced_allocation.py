"""Even use of resources."""

import pytest

from scheduler.config.plugin_args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from scheduler.errors import ConfigurationError
from scheduler.plugins import NodeResourcesBalancedAllocation
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import scores, table_of

GPU = "nvidia.com/gpu"
WITH_GPU = (ResourceSpec("cpu"), ResourceSpec("memory"), ResourceSpec(GPU))


def amounts(cpu, memory, gpu=None):
    found = {"cpu": f"{cpu}m", "memory": str(memory)}
    return found if gpu is None else found | {GPU: str(gpu)}


# incoming pod; (allocatable, used) of two nodes; scores
CASES = [
    ("less even on one", (3000, 5000), [(4000, 10000), None], [(6000, 10000), None], [68, 75]),
    ("some use before", (3000, 5000),
     [(10000, 20000), (3000, 0)], [(10000, 20000), (3000, 5000)], [73, 74]),
    ("some use before, more memory", (3000, 5000),
     [(10000, 20000), (3000, 0)], [(10000, 50000), (3000, 5000)], [73, 70]),
    ("evened out, and the opposite", (0, 5000),
     [(3000, 5000), (3000, 0)], [(3000, 5000), None], [100, 50]),
    ("cpu fills up", (3000, 0), [(6000, 10000), (3000, 0)], [(6000, 10000), (3000, 5000)],
     [62, 62]),
    ("over capacity counts as full", (3000, 0),
     [(4000, 10000), (3000, 0)], [(4000, 10000), (4000, 0)], [69, 75]),
    ("nothing of a resource on one node", (3000, 5000), [(4000, 0), None], [(6000, 10000), None],
     [75, 75]),
    ("three resources", (0, 0, 1),
     [(3500, 40000, 8), (3000, 5000, 3)], [(3500, 40000, 8), (3000, 5000)], [75, 76]),
    ("a device that the pod does not request", (3000, 5000),
     [(3500, 40000, 8), None], [(3500, 40000, 8), None], [56, 56]),
    ("a device on one node only", (3000, 5000, 1),
     [(3500, 40000, 8), None], [(3500, 40000), None], [57, 56]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("incoming", "first", "second", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_the_more_even_the_better(incoming, first, second, expected):
    plugin = NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(WITH_GPU))
    nodes, pods = [], []
    for name, (allocatable, used) in zip("ab", (first, second), strict=True):
        nodes.append(make_node(name, allocatable=amounts(*allocatable)))
        if used:
            pods.append(make_pod(f"on-{name}", node=name, requests=amounts(*used)))

    assert scores(plugin, make_pod(requests=amounts(*incoming)), table_of(nodes, pods)) == expected


@pytest.mark.parametrize("requests", [{}, {"cpu": "0"}, {GPU: "1"}])
def test_a_pod_that_requests_nothing_that_counts_is_not_scored(requests):
    plugin = NodeResourcesBalancedAllocation()

    assert scores(plugin, make_pod(requests=requests), table_of([make_node()])) is None


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        pytest.param((), "resources: ", id="none"),
        pytest.param((ResourceSpec("cpu", 2),), "resources[0].weight: ", id="a weight"),
        pytest.param((ResourceSpec("cpu"),) * 2, "resources[1].name: ", id="twice the same"),
    ],
)
def test_unusable_arguments_are_named(resources, problem):
    with pytest.raises(ConfigurationError) as caught:
        NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(resources))

    assert caught.value.problems[0].startswith(problem)
