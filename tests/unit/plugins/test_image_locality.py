"""Where a pod's images are already."""

import pytest

from scheduler.plugins import ImageLocality
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import columns_of, scores, table_of

MIB = 1024 * 1024


def node(name, *sizes):
    return make_node(name, images={f"gcr.io/{size}:latest": size * MIB for size in sizes})


def containers(*sizes):
    return [{"name": f"c{i}", "image": f"gcr.io/{size}"} for i, size in enumerate(sizes)]


CASES = [
    pytest.param((40, 250), {}, [(10, 20, 40), (250, 10)], [0, 5], id="below the minimum"),
    pytest.param((40, 300), {}, [(40, 300), (10,)], [7, 0], id="two on one node"),
    pytest.param((4000, 10), {}, [(4000,), (10,)], [100, 0], id="above the maximum"),
    pytest.param((4000, 10), {}, [(4000,), (10,), ()], [66, 0, 0], id="every node is a divisor"),
    pytest.param(
        (300, 600, 900), {}, [(600, 900), (300, 600, 900), ()], [32, 36, 0], id="three images"
    ),
    pytest.param((30, 40), {}, [(20, 30, 40), (4000, 30)], [1, 0], id="small ones"),
    pytest.param(
        (30,),
        {"volumes": [{"name": "v", "image": {"reference": "gcr.io/300"}}]},
        [(300, 20), (30, 10)],
        [12, 0],
        id="an image volume counts, but is no container",
    ),
    pytest.param(
        (30,),
        {"init_containers": containers(300)},
        [(40, 300, 2000), (20, 30, 40)],
        [6, 0],
        id="init containers count",
    ),
    pytest.param((5,), {}, [(10,), (20,)], [0, 0], id="nobody has it"),
    pytest.param((200, 200), {}, [(200,), ()], [8, 0], id="an image counts for each reference"),
]


@pytest.mark.parametrize(("images", "more", "nodes", "expected"), CASES)
def test_bytes_that_are_there_already_count(images, more, nodes, expected):
    table = table_of(node(f"n{i}", *sizes) for i, sizes in enumerate(nodes))

    assert scores(ImageLocality(), make_pod(containers=containers(*images), **more), table) == (
        expected
    )


@pytest.mark.parametrize(
    ("image", "held", "found"),
    [
        pytest.param("root", "root:latest", True, id="no tag is latest"),
        pytest.param("root:tag", "root:tag", True, id="a tag"),
        pytest.param("gcr.io:5000/root", "gcr.io:5000/root:latest", True, id="a port is no tag"),
        pytest.param("root@sha256:abc", "root@sha256:abc", True, id="a digest stays"),
        pytest.param("root", "root", False, id="names of nodes are taken as they are"),
    ],
)
def test_image_names_are_completed(image, held, found):
    table = table_of([make_node("a", images={held: 5000 * MIB})])

    [score] = scores(ImageLocality(), make_pod(containers=[{"image": image}]), table)

    assert score == (100 if found else 0)


def test_all_nodes_count_even_if_some_are_not_feasible():
    table = table_of([node("a", 4000), node("b"), node("c")])
    part = table.select(table.named(["a", "b"]))

    assert scores(ImageLocality(), make_pod(containers=containers(4000, 10)), part) == [66, 0]


def test_the_first_node_sets_the_size_and_may_correct_it_while_alone():
    columns = columns_of([node("a", 4000), node("b")])
    pod = make_pod(containers=containers(4000, 10))

    columns.update_node(make_node("a", images={"gcr.io/4000:latest": 10 * MIB}))
    assert scores(ImageLocality(), pod, NodeTable(columns)) == [0, 0]

    columns.update_node(node("a", 4000))
    columns.update_node(make_node("b", images={"gcr.io/4000:latest": 10 * MIB}))
    assert scores(ImageLocality(), pod, NodeTable(columns)) == [100, 100]


def test_who_has_an_image_is_counted_anew_for_every_pod():
    """Upstream counts for each node when that node last changed (``NodeInfo.SnapshotConcrete``)."""
    columns = columns_of([node("a", 300), node("b")])
    pod = make_pod(containers=containers(300))
    before = scores(ImageLocality(), pod, NodeTable(columns))

    columns.update_node(node("b", 300))

    first, second = scores(ImageLocality(), pod, NodeTable(columns))
    assert first == second > before[0] > 0
