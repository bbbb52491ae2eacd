"""What a pod requests must be free; how much is left makes the score."""

import pytest

from scheduler.config.plugin_args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    ShapePoint,
)
from scheduler.errors import ConfigurationError
from scheduler.framework.cluster_event import ASSIGNED_POD, NODE, POD, Action
from scheduler.plugins import NodeResourcesFit
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_node, make_pod
from tests.unit.plugins.plugin_calls import (
    OK,
    UAU,
    U,
    answers,
    codes,
    columns_of,
    scores,
    table_of,
    wakes,
)

A, B, HUGE = "example.com/aaa", "example.com/bbb", "hugepages-2Mi"
NATIVE = "kubernetes.io/something"
DISK = "ephemeral-storage"
CAPACITY = {"cpu": "10m", "memory": "20", "pods": "32", A: "5", DISK: "20", HUGE: "5"}


def amounts(cpu=None, memory=None, **more):
    """Write milli-cpu, bytes and anything else as a container requests them."""
    known = {"cpu": None if cpu is None else f"{cpu}m", "memory": memory}
    return {name: str(n) for name, n in (known | more).items() if n is not None}


def container(requests, **more):
    return {"name": "c", "resources": {"requests": requests}} | more


def pod(*containers, init=(), sidecars=(), **spec):
    return make_pod(
        containers=[container(each) for each in containers],
        init_containers=[
            *(container(each, restartPolicy="Always") for each in sidecars),
            *(container(each) for each in init),
        ],
        **spec,
    )


def pod_level(requests, **more):
    return pod(amounts(1, 1), resources={"requests": requests}, **more)


INSUFFICIENT_CPU = ("Insufficient cpu",)
INSUFFICIENT_MEMORY = ("Insufficient memory",)

FIT = [
    ("nothing requested always fits", pod({}), amounts(10, 20), OK, ()),
    ("no containers always fits", pod(), amounts(10, 20), OK, ()),
    ("both short", pod(amounts(1, 1)), amounts(10, 20), U, INSUFFICIENT_CPU + INSUFFICIENT_MEMORY),
    ("init cpu", pod(amounts(1, 1), init=[amounts(3, 1)]), amounts(8, 19), U, INSUFFICIENT_CPU),
    ("the larger of two inits", pod(amounts(1, 1), init=[amounts(3, 1), amounts(2, 1)]),
     amounts(8, 19), U, INSUFFICIENT_CPU),
    ("init memory", pod(amounts(1, 1), init=[amounts(1, 3)]), amounts(9, 19), U,
     INSUFFICIENT_MEMORY),
    ("init takes turns", pod(amounts(1, 1), init=[amounts(1, 1)]), amounts(9, 19), OK, ()),
    ("two inits take turns", pod(amounts(1, 1), init=[amounts(1, 1)] * 2), amounts(9, 19), OK, ()),
    ("both fit", pod(amounts(1, 1)), amounts(5, 5), OK, ()),
    ("memory fits, cpu does not", pod(amounts(2, 1)), amounts(9, 5), U, INSUFFICIENT_CPU),
    ("cpu fits, memory does not", pod(amounts(1, 2)), amounts(5, 19), U, INSUFFICIENT_MEMORY),
    ("exactly", pod(amounts(5, 1)), amounts(5, 19), OK, ()),
    ("exactly, with init", pod(amounts(4, 1), init=[amounts(5, 1)]), amounts(5, 19), OK, ()),
    ("more than the node has", pod(amounts(11, 1)), amounts(), UAU, INSUFFICIENT_CPU),
    ("one hopeless, one not", pod(amounts(11, 2)), amounts(0, 19), UAU,
     INSUFFICIENT_CPU + INSUFFICIENT_MEMORY),
    ("devices fit", pod(amounts(1, 1, **{A: 1})), amounts(0, 0), OK, ()),
    ("device capacity", pod(amounts(1, 1, **{A: 10})), amounts(0, 0), UAU, (f"Insufficient {A}",)),
    ("device capacity, init", pod({}, init=[amounts(1, 1, **{A: 10})]), amounts(0, 0), UAU,
     (f"Insufficient {A}",)),
    ("devices taken", pod(amounts(1, 1, **{A: 1})), amounts(0, 0, **{A: 5}), U,
     (f"Insufficient {A}",)),
    ("devices of two containers", pod(*[amounts(1, 1, **{A: 3})] * 2), amounts(0, 0, **{A: 2}),
     UAU, (f"Insufficient {A}",)),
    ("devices of two inits", pod({}, init=[amounts(1, 1, **{A: 3})] * 2), amounts(0, 0, **{A: 2}),
     OK, ()),
    ("devices of a large init",
     pod({}, init=[amounts(1, 1, **{A: 6}), amounts(1, 1, **{A: 3})]), amounts(0, 0, **{A: 2}),
     UAU, (f"Insufficient {A}",)),
    ("an unknown device", pod(amounts(1, 1, **{B: 1})), amounts(0, 0), UAU, (f"Insufficient {B}",)),
    ("an unknown native resource", pod(amounts(1, 1, **{NATIVE: 10})), amounts(0, 0), UAU,
     (f"Insufficient {NATIVE}",)),
    ("hugepages capacity", pod(amounts(1, 1, **{HUGE: 10})), amounts(0, 0), UAU,
     (f"Insufficient {HUGE}",)),
    ("hugepages taken", pod(amounts(1, 1, **{HUGE: 1})), amounts(0, 0, **{HUGE: 5}), U,
     (f"Insufficient {HUGE}",)),
    ("hugepages of two containers", pod(*[amounts(1, 1, **{HUGE: 3})] * 2),
     amounts(0, 0, **{HUGE: 2}), UAU, (f"Insufficient {HUGE}",)),
    ("no devices, overcommitted", pod(amounts(1, 1, **{A: 0})), amounts(0, 0, **{A: 6}), OK, ()),
    ("no cpu and memory, overcommitted", pod(amounts(0, 0, **{A: 1})), amounts(20, 30), OK, ()),
    ("overhead fits", pod(amounts(1, 1), overhead=amounts(3, 13)), amounts(5, 5), OK, ()),
    ("overhead does not", pod(amounts(1, 1), overhead=amounts(1, 15)), amounts(5, 5), U,
     INSUFFICIENT_MEMORY),
    ("cpu at pod level", pod_level(amounts(7, 2)), amounts(5, 5), U, INSUFFICIENT_CPU),
    ("memory at pod level", pod_level(amounts(3, 2)), amounts(5, 19), U, INSUFFICIENT_MEMORY),
    ("pod level fits", pod_level(amounts(3, 2)), amounts(5, 5), OK, ()),
    ("hugepages at pod level", pod_level({HUGE: "5"}), amounts(0, 0), OK, ()),
    ("hugepages at pod level, hopeless", pod_level({HUGE: "10"}), amounts(0, 0), UAU,
     (f"Insufficient {HUGE}",)),
    ("disk capacity", pod(amounts(**{DISK: 25})), amounts(), UAU, (f"Insufficient {DISK}",)),
    ("disk taken", pod(amounts(**{DISK: 15})), amounts(**{DISK: 10}), U,
     (f"Insufficient {DISK}",)),
    ("disk fits", pod(amounts(**{DISK: 5})), amounts(**{DISK: 10}), OK, ()),
    ("everything short, in order", pod(amounts(6, 16, **{A: 5, DISK: 16})),
     amounts(5, 5, **{A: 1, DISK: 5}), U,
     ("Insufficient cpu", "Insufficient memory", f"Insufficient {DISK}", f"Insufficient {A}")),
    ("a sidecar runs on", pod(amounts(1, 1), sidecars=[amounts(3, 1)]), amounts(7, 5), U,
     INSUFFICIENT_CPU),
    ("a name that nobody knows is dropped", pod({"storage": "5", "foo": "9"}), amounts(), OK, ()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("incoming", "used", "code", "reasons"),
    [pytest.param(*case[1:], id=case[0]) for case in FIT],
)
def test_a_pod_fits_where_enough_is_free(incoming, used, code, reasons):
    nodes = table_of(
        [make_node("a", allocatable=CAPACITY)], [make_pod("x", node="a", requests=used)]
    )

    assert answers(NodeResourcesFit(), incoming, nodes) == {"a": (code, reasons)}


@pytest.mark.parametrize(
    ("args", "request_", "expected"),
    [
        pytest.param({"ignored_resources": (B,)}, {B: 1}, (OK, ()), id="by name"),
        pytest.param(
            {"ignored_resource_groups": ("example.com",)},
            {B: 1, NATIVE: 1},
            (UAU, (f"Insufficient {NATIVE}",)),
            id="by group, but never a native resource",
        ),
        pytest.param(
            {"ignored_resources": (NATIVE, "cpu")},
            {NATIVE: 1, "cpu": 11},
            (UAU, ("Insufficient cpu", f"Insufficient {NATIVE}")),
            id="only extended resources",
        ),
    ],
)
def test_ignored_resources_are_not_compared(args, request_, expected):
    plugin = NodeResourcesFit(NodeResourcesFitArgs(**args))
    nodes = table_of([make_node("a", allocatable=CAPACITY)])

    requests = amounts(1, 1) | {name: str(count) for name, count in request_.items()}

    assert answers(plugin, make_pod(requests=requests), nodes)["a"] == expected


def test_too_many_pods_can_be_helped():
    node = make_node("a", allocatable=CAPACITY | {"pods": "1"})
    nodes = table_of([node], [make_pod("x", node="a", requests=amounts(5, 5))])

    for incoming in (pod({}), pod(amounts(1, 1)), pod(*[{}] * 2)):
        assert answers(NodeResourcesFit(), incoming, nodes) == {"a": (U, ("Too many pods",))}


def test_a_full_node_reports_all_other_reasons_too():
    node = make_node("a", allocatable=CAPACITY | {"pods": "1"})
    nodes = table_of([node], [make_pod("x", node="a", requests=amounts(5, 5))])

    found = answers(NodeResourcesFit(), pod(amounts(11, 16)), nodes)

    assert found == {"a": (UAU, ("Too many pods", "Insufficient cpu", "Insufficient memory"))}


# Scores.

LEAST, MOST, SHAPED = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
EXT, FOO, BAR = "intel.com/foo", "intel.com/foo", "intel.com/bar"
CPU_MEMORY = (("cpu", 1), ("memory", 1))
MEMORY_DOUBLE = (("memory", 2), ("cpu", 1))
WITH_EXT = (*CPU_MEMORY, (EXT, 1))
FALLING, RISING, LOW = ((0, 10), (100, 0)), ((0, 0), (100, 10)), ((0, 0), (100, 1))

ONE = pod(amounts(1000, 2000), amounts(2000, 3000))
CPU_ONLY = amounts(3000, 0)
BOTH = amounts(3000, 5000)
MI = 1024 * 1024


def strategy(kind, resources=CPU_MEMORY, shape=None):
    ratio = RequestedToCapacityRatio(tuple(ShapePoint(*point) for point in shape or ()))
    return NodeResourcesFit(
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(
                type=kind,
                resources=tuple(ResourceSpec(*each) for each in resources),
                requested_to_capacity_ratio=ratio if shape else None,
            )
        )
    )


def two(first, second):
    """Two nodes: milli-cpu, bytes, and devices."""
    return [
        amounts(*each[:2], **{EXT: each[2]} if len(each) > 2 else {}) for each in (first, second)
    ]


SAME, WIDER = two((4000, 10000), (4000, 10000)), two((4000, 10000), (6000, 10000))
LARGE = two((10000, 20000), (10000, 20000))
FOO_8_4 = [{FOO: "8"}, {FOO: "4"}]
FOO_BAR = [{FOO: "8", BAR: "4"}, {FOO: "4", BAR: "8"}]
FOO_3_BAR_5 = ((FOO, 3), (BAR, 5))

SCORES = [
    ("least: no containers", strategy(LEAST), pod(), SAME, [], [], [100, 100]),
    ("least: nothing there yet", strategy(LEAST), ONE, WIDER, [], [], [37, 50]),
    ("least: memory counts double", strategy(LEAST, MEMORY_DOUBLE), ONE, WIDER, [], [], [41, 50]),
    ("least: explicit zeros have no defaults", strategy(LEAST), pod(), LARGE,
     [CPU_ONLY, CPU_ONLY], [CPU_ONLY, BOTH], [70, 57]),
    ("least: pods are there", strategy(LEAST), ONE, LARGE, [CPU_ONLY], [BOTH], [57, 45]),
    ("least: a larger node", strategy(LEAST), ONE, two((10000, 20000), (10000, 50000)),
     [CPU_ONLY], [BOTH], [57, 60]),
    ("least: over capacity weighs in", strategy(LEAST), pod(CPU_ONLY), SAME, [CPU_ONLY], [BOTH],
     [50, 25]),
    ("least: nothing allocatable", strategy(LEAST), ONE, two((0, 0), (0, 0)), [], [], [0, 0]),
    ("least: memory only here", strategy(LEAST), ONE, two((6000, 0), (6000, 10000)), [], [],
     [50, 50]),
    ("least: a device that the pod does not request", strategy(LEAST, WITH_EXT), ONE,
     two((6000, 10000), (6000, 10000, 4)), [], [], [50, 50]),
    ("least: a device", strategy(LEAST, WITH_EXT), pod(amounts(3000, 5000, **{EXT: 2})),
     two((6000, 10000, 4), (6000, 10000, 10)), [], [], [50, 60]),
    ("least: a device on one node", strategy(LEAST, WITH_EXT), pod(amounts(3000, 5000, **{EXT: 1})),
     two((6000, 10000), (6000, 10000, 4)), [], [], [50, 58]),
    ("least: a device of weight 2 that the pod does not request",
     strategy(LEAST, (*CPU_MEMORY, (EXT, 2))), pod(amounts(3000, 4000)),
     two((6000, 10000), (6000, 10000, 4)), [], [], [55, 55]),
    ("least: other names do not count", strategy(LEAST, (*CPU_MEMORY, ("pods", 1))), ONE, WIDER,
     [], [], [37, 50]),
    ("most: nothing there yet", strategy(MOST), ONE, WIDER, [], [], [62, 50]),
    ("most: memory counts double", strategy(MOST, MEMORY_DOUBLE), ONE, WIDER, [], [], [58, 50]),
    ("most: full", strategy(MOST), pod(amounts(5000, 9000)), two((5000, 10000), (10000, 9000)),
     [], [], [95, 75]),
    ("most: defaults, cut off at capacity", strategy(MOST), pod({}),
     two((250, 1000 * MI), (250, 1000 * MI)), [{}, {}], [], [80, 30]),
    ("most: a device", strategy(MOST, WITH_EXT), pod(amounts(3000, 5000, **{EXT: 2})),
     two((6000, 10000, 4), (6000, 10000, 10)), [], [], [50, 40]),
    ("shape: rounded, not cut off", strategy(SHAPED, shape=FALLING), ONE, WIDER, [], [], [38, 50]),
    ("shape: what scores nothing weighs nothing", strategy(SHAPED, shape=FALLING), ONE, WIDER,
     [amounts(2000, 4000)], [amounts(1000, 2000)], [10, 32]),
    ("shape: rising", strategy(SHAPED, shape=RISING), ONE, WIDER,
     [amounts(2000, 4000)], [amounts(1000, 2000)], [95, 68]),
    ("shape: a device", strategy(SHAPED, ((FOO, 1),), LOW), pod({FOO: "2"}), FOO_8_4, [], [],
     [2, 5]),
    ("shape: a device in use", strategy(SHAPED, ((FOO, 1),), LOW), pod({FOO: "2"}), FOO_8_4, [],
     [{FOO: "2"}], [2, 10]),
    ("shape: more devices", strategy(SHAPED, ((FOO, 1),), LOW), pod({FOO: "4"}), FOO_8_4, [], [],
     [5, 10]),
    ("shape: no device requested", strategy(SHAPED, ((FOO, 1),), LOW), pod({}), FOO_8_4, [], [],
     [0, 0]),
    ("shape: two devices", strategy(SHAPED, FOO_3_BAR_5, LOW), pod({FOO: "2", BAR: "2"}), FOO_BAR,
     [], [], [4, 3]),
    ("shape: two devices in use", strategy(SHAPED, FOO_3_BAR_5, LOW), pod({FOO: "2", BAR: "2"}),
     FOO_BAR, [], [{FOO: "4", BAR: "2"}], [4, 7]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plugin", "incoming", "allocatable", "first", "second", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in SCORES],
)
def test_what_is_left_makes_the_score(plugin, incoming, allocatable, first, second, expected):
    nodes = [make_node(f"n{i}", allocatable=each) for i, each in enumerate(allocatable)]
    pods = [
        make_pod(f"p{i}-{j}", node=f"n{i}", requests=each)
        for i, used in enumerate((first, second))
        for j, each in enumerate(used)
    ]

    assert scores(plugin, incoming, table_of(nodes, pods)) == expected


@pytest.mark.parametrize("rows", [2, 100])
@pytest.mark.parametrize(("kind", "expected"), [(LEAST, [0, 99]), (MOST, [100, 0])])
def test_a_node_with_more_requested_than_int64_holds_is_full(kind, expected, rows):
    """Anybody may name a node for pods of any size, and a kubelet that is down turns none away."""
    memory = strategy(kind, (("memory", 1),))
    nodes = [make_node(f"n{i}", allocatable={"memory": "1Ti", "pods": "9"}) for i in range(rows)]
    on_all = [make_pod(f"p{i}", node=f"n{i}", requests={"memory": "1"}) for i in range(rows)]
    huge = [make_pod(f"huge{i}", node="n0", requests={"memory": "5E"}) for i in range(3)]
    columns = columns_of(nodes, on_all + huge)
    table = NodeTable(columns)

    assert codes(NodeResourcesFit(), pod(amounts(memory=1)), table)[:2] == [U, OK]
    assert scores(memory, pod(amounts(memory=1)), table)[:2] == expected

    for each in huge:
        columns.remove_pod(0, each.uid)
    assert set(codes(NodeResourcesFit(), pod(amounts(memory=1)), NodeTable(columns))) == {OK}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(LEAST, [75, 75, 74, 75]), (MOST, [25, 25, 25, 25]), (SHAPED, [75, 75, 75, 75])],
)
def test_no_amount_is_too_large_to_be_scored(kind, expected):
    """A quarter is requested of each; a hundred times as much is beyond int64 from 92 PB on."""
    allocatable = [4000, 400 * 10**15, 2**60 + 1, 2**62 - 4]
    shape = ((0, 10), (100, 0)) if kind == SHAPED else ()
    nodes = [
        make_node(f"n{i}", allocatable={"memory": str(each), "pods": "9"})
        for i, each in enumerate(allocatable)
    ]
    used = [
        make_pod(f"p{i}", node=f"n{i}", requests={"memory": str(-(-each // 4) - 1)})
        for i, each in enumerate(allocatable)
    ]

    plugin = strategy(kind, (("memory", 1),), shape)
    assert scores(plugin, pod(amounts(memory=1)), table_of(nodes, used)) == expected


@pytest.mark.parametrize(("kind", "expected"), [(MOST, [67, 45]), (LEAST, [32, 55])])
def test_a_sidecar_counts_in_scores(kind, expected):
    main = [container(amounts(1000, 2000))]
    sidecar = [container(amounts(1000, 2000), restartPolicy="Always")]
    nodes = [make_node(name, allocatable=amounts(4000, 10000)) for name in "ab"]
    pods = [
        make_pod("x", node="a", containers=main, init_containers=sidecar),
        make_pod("y", node="b", containers=main),
    ]

    assert scores(strategy(kind), pod(amounts(1000, 2000)), table_of(nodes, pods)) == expected


def test_requests_at_pod_level_are_not_seen_of_an_incoming_pod():
    """Upstream's scorer takes such a pod for one without requests; a placed one it sees whole."""
    level = pod(amounts(), resources={"requests": amounts(2000, 2000)})
    nodes = [make_node(name, allocatable=amounts(4000, 1000 * MI)) for name in "ab"]
    placed = pod(amounts(), resources={"requests": amounts(2000, 200 * MI)}, node="b", name="x")

    assert scores(strategy(MOST), level, table_of(nodes, [placed])) == [11, 46]


@pytest.mark.parametrize(
    ("shape", "percent", "score"),
    [
        *[(((10, 1), (90, 9)), *pair) for pair in
          [(0, 10), (10, 10), (19, 19), (20, 20), (89, 89), (90, 90), (100, 90)]],
        *[(((0, 2), (40, 10), (100, 0)), *pair) for pair in [(0, 20), (70, 50), (100, 0)]],
        (((0, 10), (3, 0)), 1, 67),  # a fall is cut off towards zero
    ],
)  # fmt: skip
def test_a_shape_is_drawn_through_its_corners(shape, percent, score):
    plugin = strategy(SHAPED, ((FOO, 1),), shape)
    nodes = table_of(
        [make_node("a", allocatable={FOO: "100"})],
        [make_pod("x", node="a", requests={FOO: str(max(percent - 1, 0))})],
    )
    if percent:
        assert scores(plugin, pod({FOO: "1"}), nodes) == [score]


# Hints.

SCALE_DOWN, ALLOCATABLE = Action.UPDATE_POD_SCALE_DOWN, Action.UPDATE_NODE_ALLOCATABLE
TARGET = make_pod("target", requests="500m cpu")


def other(requests, **more):
    return make_pod("other", requests=requests, **more)


@pytest.mark.parametrize(
    ("action", "old", "new", "expected"),
    [
        pytest.param(Action.DELETE, other("1 cpu", node="a"), None, True, id="gone from a node"),
        pytest.param(Action.DELETE, other("1 cpu", nominated="a"), None, True, id="was nominated"),
        pytest.param(Action.DELETE, other("1 cpu"), None, False, id="had no node"),
        pytest.param(SCALE_DOWN, TARGET, TARGET, True, id="the pod itself takes less"),
        pytest.param(
            SCALE_DOWN, other("2 cpu"), other("1 cpu"), False, id="another that is pending"
        ),
        pytest.param(
            SCALE_DOWN,
            other("2 cpu", node="a"),
            other("1 cpu", node="a"),
            True,
            id="another takes less of it",
        ),
        pytest.param(
            SCALE_DOWN,
            other("1 cpu, 2Gi", node="a"),
            other("1 cpu, 1Gi", node="a"),
            False,
            id="another takes less of something else",
        ),
    ],
)
def test_a_pod_that_gave_way_wakes_the_pod(action, old, new, expected):
    resource = POD if action == Action.DELETE else ASSIGNED_POD

    assert wakes(NodeResourcesFit(), TARGET, resource, action, old, new) == expected


def sized(**allocatable):
    return make_node("a", allocatable={"pods": "10", A: "2"} | allocatable)


NODE_HINTS = [
    ("a node it fits on is added", TARGET, None, sized(cpu="1"), True),
    ("a node that is too small is added", TARGET, None, sized(cpu="400m"), False),
    ("a node without room for any pod", TARGET, None, sized(cpu="1", pods="0"), False),
    ("it grew", TARGET, sized(cpu="1"), sized(cpu="2"), True),
    ("it grew in something else", TARGET, sized(cpu="1"), sized(cpu="1", memory="1Gi"), False),
    ("it takes more pods", TARGET, sized(cpu="1"), sized(cpu="1", pods="11"), True),
    ("it shrank", TARGET, sized(cpu="2"), sized(cpu="1"), False),
    ("it grew, but is too small", TARGET, sized(cpu="100m"), sized(cpu="400m"), False),
    ("nothing is requested", make_pod(), sized(cpu="1"), sized(cpu="2"), False),
    ("nothing is requested, more pods", make_pod(), sized(), sized(pods="11"), True),
    ("devices grew", make_pod(requests={A: "2"}), sized(**{A: "1"}), sized(**{A: "2"}), True),
    ("no devices are requested", make_pod(requests={A: "0"}), sized(), sized(**{A: "3"}), False),
]


@pytest.mark.parametrize(
    ("target", "old", "new", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in NODE_HINTS],
)
def test_a_node_that_grew_wakes_the_pod(target, old, new, expected):
    action = Action.ADD if old is None else ALLOCATABLE

    assert wakes(NodeResourcesFit(), target, NODE, action, old, new) == expected


def test_ignored_resources_are_not_ignored_by_hints():
    plugin = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=(B,)))

    assert not wakes(plugin, make_pod(requests={B: "1"}), NODE, Action.ADD, None, sized())


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(
            NodeResourcesFitArgs(ignored_resource_groups=("a/b",)),
            "ignoredResourceGroups[0]: ",
            id="a group with a slash",
        ),
        pytest.param(
            NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="Best")),
            "scoringStrategy.type: ",
            id="an unknown strategy",
        ),
        pytest.param(
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy("LeastAllocated", (ResourceSpec("cpu", 101),))
            ),
            "scoringStrategy.resources[0].weight: ",
            id="a weight beyond 100",
        ),
        pytest.param(
            NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type=SHAPED)),
            "scoringStrategy.requestedToCapacityRatio.shape: ",
            id="no shape",
        ),
        pytest.param(
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(
                    type=SHAPED,
                    requested_to_capacity_ratio=RequestedToCapacityRatio(
                        (ShapePoint(50, 1), ShapePoint(50, 2))
                    ),
                )
            ),
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: ",
            id="a shape that does not rise",
        ),
    ],
)
def test_unusable_arguments_are_named(args, problem):
    with pytest.raises(ConfigurationError) as caught:
        NodeResourcesFit(args)

    assert caught.value.problems[0].startswith(problem)


def test_the_order_of_rows_means_nothing():
    nodes = table_of(make_node(f"n{i}", allocatable=amounts(1000 * i, 1000)) for i in range(4))

    assert codes(NodeResourcesFit(), pod(amounts(1500, 10)), nodes) == [UAU, UAU, OK, OK]
