import numpy as np
import pytest
from avoid_draining import AvoidDraining, drained_no_more

from scheduler import NODE, Action, Change, ClusterEvent, Skip
from scheduler.testing import check_plugin, make_node, make_pod, make_table

DRAINING = make_node("a", labels="maintenance=draining")
QUIET = make_node("b")


def test_avoid_draining_keeps_the_contract():
    check_plugin(AvoidDraining(), pods=[make_pod("patient", labels="maintenance=tolerate")])


def test_nodes_being_drained_are_rejected_for_good():
    """Preemption is not tried: it could not end the maintenance."""
    (rejection,) = AvoidDraining().filter(make_pod(), make_table(DRAINING, QUIET))

    assert rejection.nodes.tolist() == [True, False]
    assert rejection.reason == "node(s) were being drained"
    assert not np.any(rejection.resolvable)


def test_pods_that_tolerate_maintenance_are_passed_over():
    patient = make_pod(labels="maintenance=tolerate")

    assert AvoidDraining().pre_filter(patient, make_table(DRAINING)) == Skip()


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [(DRAINING, QUIET, True), (QUIET, DRAINING, False), (None, QUIET, True), (QUIET, None, False)],
)
def test_a_rejected_pod_wakes_when_a_node_is_drained_no_more(old, new, helps):
    change = Change(ClusterEvent(NODE, Action.UPDATE_NODE_LABEL), old, new)

    assert drained_no_more(make_pod(), change) is helps
