"""The word that upstream's DynamicResources has in every message."""

import dataclasses

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.framework.decision import Park
from scheduler.framework.registry import Registry
from scheduler.framework.rejection import Refused
from scheduler.plugins import IN_TREE
from scheduler.testing.builders import make_node, make_pod

CONFLICT = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["a"]},
                        {"key": "metadata.name", "operator": "In", "values": ["b"]},
                    ]
                }
            ]
        }
    }
}


class NeverOn:
    """A user's plugin, which stands behind the default ones."""

    name = "NeverOn"

    def pre_filter(self, pod, nodes):
        return Refused("not today", resolvable=False)


def message(pod, **more) -> str:
    registry = Registry(IN_TREE).with_plugins(more)
    enabled = ", ".join(f"{{name: {name}}}" for name in more)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]\n"
    )
    profile = registry.build(read(text).resolve(registry.available).profiles[0])
    cache = ClusterCache()
    cache.add_node(make_node("a", allocatable="1 cpu, 1Gi, 10 pods"))
    decision = decide(Attempt(profile, pod, cache.view(), {}))
    assert isinstance(decision, Park)
    return decision.message


def test_it_answers_before_preemption_does():
    assert message(make_pod(requests="4 cpu")) == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_it_breaks_off_where_no_node_was_judged():
    """Upstream's plugin finds nothing prepared, and preemption is not tried."""
    assert message(make_pod(affinity=CONFLICT)) == (
        "0/1 nodes are available: pod affinity terms conflict. not found"
    )


def test_it_answers_if_a_later_plugin_rejects():
    assert message(make_pod(), NeverOn=NeverOn) == (
        "0/1 nodes are available: not today. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_without_it_the_message_is_without_it():
    registry = Registry(IN_TREE)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {postFilter: {disabled: [{name: DynamicResources}]}}}]\n"
    )
    profile = registry.build(read(text).resolve(registry.available).profiles[0])

    assert "DynamicResources" not in [plugin.name for plugin in profile.post_filter]
    assert dataclasses.is_dataclass(profile)
