"""How much a pod requests: of the node, of the node it is on, and in the eyes of scores."""

import pytest

from scheduler.testing import make_pod

MI = 1024 * 1024


def container(requests=None, name="c", **more):
    return {"name": name, "resources": {"requests": requests or {}}} | more


def sidecar(requests=None, name="s"):
    return container(requests, name, restartPolicy="Always")


def cpus(*amounts):
    return [container({"cpu": str(each)}) for each in amounts]


INIT, SIDE = (lambda n: container({"cpu": str(n)})), (lambda n: sidecar({"cpu": str(n)}))

SUMS = [
    ("sidecars run beside the containers", cpus(1), [INIT(5), SIDE(1), SIDE(2), SIDE(3)],
     {"cpu": 7000}),
    ("an init runs beside earlier sidecars", cpus(1),
     [INIT(5), SIDE(1), SIDE(2), INIT(5), SIDE(3)], {"cpu": 8000}),
    ("a large init after a sidecar", cpus(100), [SIDE(10), INIT(200)], {"cpu": 210000}),
    ("the larger of both, for each resource",
     [container({"cpu": "2", "memory": "1G"}), container({"cpu": "1", "memory": "1G"})],
     [container({"cpu": "2", "memory": "1G"}), container({"cpu": "2", "memory": "3G"})],
     {"cpu": 3000, "memory": 3 * 10**9}),
    ("rounded once", cpus("100.5m", "100.4m"), [], {"cpu": 201}),
    ("other names are dropped",
     [container({"storage": "1", "foo": "1", "example.com/gpu": "0"})], [],
     {"example.com/gpu": 0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("containers", "inits", "expected"), [pytest.param(*case[1:], id=case[0]) for case in SUMS]
)
def test_containers_and_init_containers_add_up(containers, inits, expected):
    assert make_pod(containers=containers, init_containers=inits).requests == expected


def resized(spec, actuated, allocated=None, infeasible=False):
    condition = {"type": "PodResizePending", "reason": "Infeasible"}
    status = {"name": "c", "resources": {"requests": {"cpu": actuated}}}
    if allocated:
        status["allocatedResources"] = {"cpu": allocated}
    return make_pod(
        containers=[container({"cpu": spec} if spec else {})],
        status={
            "containerStatuses": [status],
            "conditions": [condition] if infeasible else [],
        },
    )


@pytest.mark.parametrize(
    ("pod", "milli"),
    [
        pytest.param(resized("4", "2"), 4000, id="the largest counts"),
        pytest.param(resized("4", "2", infeasible=True), 2000, id="an infeasible wish does not"),
        pytest.param(resized("6", "2", "4"), 6000, id="a wish"),
        pytest.param(resized("6", "2", "4", infeasible=True), 4000, id="what was allocated"),
        pytest.param(resized("", "2"), 2000, id="nothing in the spec"),
    ],
)
def test_a_resize_counts_on_the_node(pod, milli):
    assert pod.placed_requests == {"cpu": milli}


def test_a_resize_does_not_count_for_the_pod_itself():
    assert resized("4", "6").requests == {"cpu": 4000}


def pod_level(requests, *containers, **more):
    return make_pod(containers=list(containers), resources={"requests": requests}, **more)


LEVEL = [
    ("unsupported names only", {"storage": "5"}, {"cpu": "1"}, {"cpu": 1000}),
    ("memory, and cpu of containers", {"memory": "5"}, {"cpu": "1", "memory": "3"},
     {"cpu": 1000, "memory": 5}),
    ("both", {"cpu": "1200m", "memory": "1200M"}, {"cpu": "500m", "memory": "1"},
     {"cpu": 1200, "memory": 1200 * 10**6}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "requests", "expected"), [pytest.param(*case[1:], id=case[0]) for case in LEVEL]
)
def test_requests_at_pod_level_replace_sums(level, requests, expected):
    assert pod_level(level, container(requests)).requests == expected


def test_overhead_comes_on_top_of_everything():
    pod = pod_level({"cpu": "1"}, container(), overhead={"cpu": "250m", "memory": "1"})

    assert pod.requests == {"cpu": 1250, "memory": 1}


SMALL, BIG = {"cpu": "1", "memory": "1Mi"}, {"cpu": "3"}
OVERHEAD = {"overhead": {"cpu": "1", "memory": "1Mi"}}
MINI_INIT, MINI = container({"cpu": "1m", "memory": "1"}), container({"cpu": "3m", "memory": "3"})

SCORED = [
    ("no container, overhead only", [], [], OVERHEAD, (1000, MI)),
    ("one without requests", [container()], [], {}, (100, 200 * MI)),
    ("two without requests", [container()] * 2, [], {}, (200, 400 * MI)),
    ("an explicit zero", [container({"cpu": "0", "memory": "0"})], [], {}, (0, 0)),
    ("one with, one without, overhead", [container(SMALL), container()], [], OVERHEAD,
     (2100, 202 * MI)),
    ("a large init", [container(SMALL), container()], [container(BIG)], OVERHEAD,
     (4000, 202 * MI)),
    ("the default of an init wins", [MINI], [container(), MINI_INIT], {}, (100, 200 * MI)),
    ("the sum wins", [MINI, container()], [container(), MINI_INIT], {}, (103, 200 * MI + 3)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("containers", "inits", "more", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in SCORED],
)
def test_an_incoming_pod_is_scored_with_defaults(containers, inits, more, expected):
    scored = make_pod(containers=containers, init_containers=inits, **more).scored_requests

    assert (scored.get("cpu"), scored.get("memory")) == expected


def test_the_scorer_does_not_see_requests_at_pod_level():
    assert pod_level({"cpu": "5"}, container()).scored_requests["cpu"] == 100


NONZERO = [
    ("no requests", make_pod(containers=[container()]), (100, 200 * MI)),
    ("requests", make_pod(containers=[container({"cpu": "500m", "memory": "500M"}),
                                      container({"cpu": "700m", "memory": "800M"})]),
     (1200, 1300 * 10**6)),
    ("both at pod level", pod_level({"cpu": "1200m", "memory": "1200M"}, container(), container()),
     (1200, 1200 * 10**6)),
    ("memory at pod level", pod_level({"memory": "1200M"}, container(), container()),
     (200, 1200 * 10**6)),
    ("cpu at pod level", pod_level({"cpu": "500m"}, container(), container()), (500, 400 * MI)),
    ("overhead suppresses a default", pod_level({"memory": "1"}, container(),
                                                overhead={"cpu": "10m"}), (10, 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "expected"), [pytest.param(*case[1:], id=case[0]) for case in NONZERO]
)
def test_a_placed_pod_is_scored_with_defaults(pod, expected):
    nonzero = pod.nonzero_requests

    assert (nonzero["cpu"], nonzero["memory"]) == expected
