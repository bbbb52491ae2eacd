"""What nobody here can grant is refused, and said."""

import pytest

from scheduler.config.configuration import read
from scheduler.framework.registry import Registry
from scheduler.framework.rejection import Refused, Skip
from scheduler.plugins import IN_TREE, UnsupportedFeatures
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.harness import Harness
from tests.unit.plugins.plugin_calls import table_of

PLUGIN = UnsupportedFeatures()


@pytest.mark.parametrize(
    ("wish", "what"),
    [
        (
            {"resource_claims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
            "resource claims (spec.resourceClaims)",
        ),
        (
            {"scheduling_group": {"podGroupName": "ring"}},
            "a scheduling group (spec.schedulingGroup)",
        ),
        ({"workload_ref": {"name": "job", "podGroup": "ring"}}, "a workload (spec.workloadRef)"),
    ],
)
def test_what_is_not_supported_is_refused(wish, what):
    assert PLUGIN.pre_filter(make_pod(**wish), table_of([make_node()])) == Refused(
        f"pod has {what}, which this scheduler does not support", resolvable=False
    )


def test_other_pods_are_no_concern():
    assert PLUGIN.pre_filter(make_pod(), table_of([make_node()])) == Skip()


def test_it_is_on_by_default_and_goes_first():
    profile = read().resolve(Registry(IN_TREE).available).profiles[0]

    built = Registry(IN_TREE).build(profile)
    assert built.pre_filter[0].name == "UnsupportedFeatures"


@in_virtual_time
async def test_the_pod_says_why_it_waits():
    pod = make_pod(resource_claims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    async with Harness() as cluster:
        cluster.create(make_node("a"), pod)
        await cluster.settle()

        assert cluster.node_of(pod) == ""
        status, reason, message = cluster.condition(pod)
        assert (status, reason) == ("False", "Unschedulable")
        assert message.startswith(
            "0/1 nodes are available: pod has resource claims (spec.resourceClaims), which this"
            " scheduler does not support. "
        )
