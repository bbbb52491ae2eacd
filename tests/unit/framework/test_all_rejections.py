"""All rejections include those that the runner finds."""

import pytest

from scheduler.framework.all_rejections import find_all_rejections
from scheduler.framework.filtering import PreFilterResult, filter_nodes, run_pre_filters
from scheduler.framework.observer import SILENT
from scheduler.testing import make_pod
from scheduler.testing.example_clusters import Interests, make_cluster
from scheduler.testing.harness import default_profile

PODS = [
    make_pod("plain"),
    make_pod("large", requests="6 cpu, 20Gi"),
    make_pod("selective", node_selector="disk=ssd", requests="2 cpu"),
    make_pod("exposed", host_ports=[8080]),
    make_pod("tolerant", tolerations="*", requests="1 example.com/gpu"),
    make_pod(
        "named",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["node-3"]}
                            ]
                        }
                    ]
                }
            }
        },
    ),
]
RIVAL = make_pod("rival", requests="3 cpu", host_ports=[8080], priority=10)


@pytest.mark.parametrize("nominated", [{}, {1: [RIVAL], 6: [RIVAL]}], ids=["alone", "rivalled"])
@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod.name)
def test_the_runner_and_all_rejections_agree(pod, nominated):
    """The same rows are left, and each of the runner's rejections is among all of them."""
    profile, nodes = default_profile(), make_cluster(24, Interests()).table()
    narrowed = run_pre_filters(profile.pre_filter, pod, nodes, SILENT)
    assert narrowed.refused is None
    judged = filter_nodes(profile, narrowed, pod, nodes, nominated, SILENT)

    everything = find_all_rejections(profile, pod, nodes, nominated, SILENT)

    assert everything.feasible.tolist() == judged.feasible.tolist()
    assert not everything.failed
    said = {
        (row, each.plugin, each.reason)
        for each in everything.verdicts
        for row in each.nodes.nonzero()[0].tolist()
    }
    blamed = {
        (row, each.plugin, each.reason)
        for each in judged.verdicts
        for row in each.nodes.nonzero()[0].tolist()
    }
    assert blamed <= said
    assert {row for row, *_ in said} == set((~judged.feasible).nonzero()[0].tolist())


def test_there_are_more_rejections_than_the_runner_finds():
    profile, nodes = default_profile(), make_cluster(24, Interests()).table()
    pod = PODS[1]
    judged = filter_nodes(profile, PreFilterResult(), pod, nodes, {}, SILENT)
    everything = find_all_rejections(profile, pod, nodes, {}, SILENT)

    def words(verdicts):
        return sum(int(each.nodes.sum()) for each in verdicts)

    assert words(everything.verdicts) > words(judged.verdicts)
