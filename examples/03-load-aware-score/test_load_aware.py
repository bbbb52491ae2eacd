import pytest
from load_aware import METRICS, LoadAware, parse_milli_cpu

from scheduler import CustomObject
from scheduler.testing import check_plugin, make_node, make_object, make_pod, make_table

NODES = [make_node(name, allocatable="4 cpu") for name in ("busy", "idle", "unmeasured")]


def metrics(name, cpu):
    """NodeMetrics as metrics-server writes them."""
    return make_object(CustomObject, name, namespace="", content={"usage": {"cpu": cpu}})


def test_load_aware_keeps_the_contract():
    check_plugin(LoadAware())


def test_idle_nodes_are_preferred():
    table = make_table(*NODES, objects={METRICS: [metrics("busy", "3"), metrics("idle", "100m")]})

    assert LoadAware().score(make_pod(), table).tolist() == [25, 98, 50]


def test_a_node_beyond_its_capacity_scores_zero():
    table = make_table(*NODES, objects={METRICS: [metrics("busy", "5")]})

    assert LoadAware(unknown=0).score(make_pod(), table).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("written", "milli"), [("2", 2000), ("250m", 250), ("17261527n", 17), ("0", 0)]
)
def test_cpu_is_read_as_metrics_server_writes_it(written, milli):
    assert parse_milli_cpu(written) == milli
