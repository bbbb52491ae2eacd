"""What a pod requests (resource/helpers_test.go; framework/types_test.go
TestPodInfoCalculateResources; noderesources/resource_allocation_test.go).

The numbers are upstream's. ``k``, ``M`` and ``G`` are decimal, as there.
"""

import pytest

from scheduler.errors import MalformedObject
from scheduler.model.resources import is_extended, is_scalar
from scheduler.testing import make_pod

MI = 1024**2


def box(requests=None, name="", *, sidecar=False):
    """A container that requests cpu and memory as in ``500m 1Gi``; ``-`` for none."""
    words = zip(("cpu", "memory"), (requests or "").split(), strict=False)
    container = {"name": name, "resources": {"requests": {r: q for r, q in words if q != "-"}}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


def side(requests):
    return box(requests, sidecar=True)


def pod(containers, init=(), **more):
    return make_pod(containers=containers, init_containers=list(init), **more)


def cpu_memory(amounts):
    return amounts.get("cpu"), amounts.get("memory")


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        (pod([box("1")], [box("5"), side("1"), side("2"), side("3")]), 7000, None),
        (
            pod([box("1")], [box("5"), side("1"), side("2"), box("5"), side("3")]),
            8000,
            None,
        ),
        (pod([box("100")], [side("10"), box("200")]), 210_000, None),
        (pod([box("100")], [box("200"), side("10")]), 200_000, None),
        (
            pod([box("2 1G"), box("1 1G")], [box("2 1G"), box("2 3G")]),
            3000,
            3 * 10**9,
        ),
        (pod([box()]), None, None),
        (pod([]), None, None),
        (pod([box("0 0")]), 0, 0),
        # Exact sums, rounded once: two containers of a tenth of a milli make one milli.
        (pod([box("100u"), box("100u")]), 1, None),
        (pod([box("100.5m"), box("100.5m")]), 201, None),
        # Overhead comes on top, also for what nobody requested.
        (pod([box("1")], overhead={"cpu": "250m", "memory": "1Mi"}), 1250, MI),
        (pod([box("1")], [box("2")], overhead={"cpu": "1"}), 3000, None),
        # At pod level.
        (pod([box("1 1M"), box("2 2M")], resources={"requests": {"cpu": "5"}}), 5000, 3 * 10**6),
        (pod([box("1")], resources={"requests": {"memory": "1M"}}), 1000, 10**6),
        (pod([box("1")], resources={"requests": {"storage": "1M"}}), 1000, None),
        (pod([box("1")], resources={"limits": {"cpu": "9"}}), 1000, None),
        (
            pod([box("1")], resources={"requests": {"cpu": "2"}}, overhead={"cpu": "1"}),
            3000,
            None,
        ),
    ],
)
def test_what_a_pod_must_find_free(given, cpu, memory):
    assert cpu_memory(given.requests) == (cpu, memory)


def status(*containers, **pod_level):
    return {
        "containerStatuses": [
            {"name": name, "resources": {"requests": {"cpu": actual}}}
            | ({"allocatedResources": {"cpu": allocated}} if allocated else {})
            for name, actual, allocated in containers
        ]
    } | pod_level


INFEASIBLE = {
    "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("given", "cpu"),
    [
        (pod([box("4", "c")], status=status(("c", "2", None), **INFEASIBLE)), 2000),
        (pod([box("6", "c")], status=status(("c", "2", "4"), **INFEASIBLE)), 4000),
        (pod([box("6", "c")], status=status(("c", "2", "4"))), 6000),
        (pod([box("6", "c")], status=status(("c", "2", "4"), **DEFERRED)), 6000),
        (pod([box("1", "c")], status=status(("c", "2", "4"))), 4000),
        (pod([box(None, "c")], status=status(("c", "2", None))), 2000),
        (pod([box("1", "c")], status=status(("other", "2", None))), 1000),
        # A plain init container is over; a sidecar is not.
        (
            pod(
                [box("1", "c")],
                [box("1", "i")],
                status={
                    "initContainerStatuses": [
                        {"name": "i", "resources": {"requests": {"cpu": "9"}}}
                    ]
                },
            ),
            1000,
        ),
        (
            pod(
                [box("1", "c")],
                [box("1", "s", sidecar=True)],
                status={
                    "initContainerStatuses": [
                        {"name": "s", "resources": {"requests": {"cpu": "9"}}}
                    ]
                },
            ),
            10_000,
        ),
        # At pod level, the larger of what is wanted and what is.
        (
            pod(
                [box("1", "c")],
                resources={"requests": {"cpu": "2"}},
                status={"resources": {"requests": {"cpu": "3"}}},
            ),
            3000,
        ),
        (
            pod(
                [box("1", "c")],
                resources={"requests": {"cpu": "5"}},
                status={"resources": {"requests": {"cpu": "3"}}} | INFEASIBLE,
            ),
            3000,
        ),
    ],
)
def test_a_resized_pod_takes_what_the_kubelet_gave_it(given, cpu):
    """What it must find free is still what its spec says."""
    assert given.placed_requests["cpu"] == cpu
    unresized = make_pod(
        containers=[
            {"name": c.name, "resources": {"requests": c.resources.requests}}
            for c in given.spec.containers
        ],
        init_containers=[
            {
                "name": c.name,
                "resources": {"requests": c.resources.requests},
                "restartPolicy": c.restart_policy,
            }
            for c in given.spec.init_containers
        ],
        resources=given.spec.resources and {"requests": given.spec.resources.requests},
    )
    assert given.requests == unresized.requests


@pytest.mark.parametrize(
    ("given", "requested", "nonzero"),
    [
        (pod([box()]), (None, None), (100, 200 * MI)),
        (pod([box(), box()]), (None, None), (200, 400 * MI)),
        (pod([box("500m 500M"), box("700m 800M")]), (1200, 1300 * 10**6), (1200, 1300 * 10**6)),
        # An explicit zero is a request.
        (pod([box("0")]), (0, None), (0, 200 * MI)),
        (
            pod([box("500m 500M")], resources={"requests": {"cpu": "1200m", "memory": "1200M"}}),
            (1200, 1200 * 10**6),
            (1200, 1200 * 10**6),
        ),
        (
            pod(
                [box("500m 500M")],
                [side("200m 200M")],
                resources={"requests": {"cpu": "1200m", "memory": "1200M"}},
            ),
            (1200, 1200 * 10**6),
            (1200, 1200 * 10**6),
        ),
        (
            pod([box(), box()], resources={"requests": {"memory": "1M"}}),
            (None, 10**6),
            (200, 10**6),
        ),
        (
            pod([box(), box()], resources={"requests": {"cpu": "500m"}}),
            (500, None),
            (500, 400 * MI),
        ),
        # Overhead alone suppresses the default of a pod with requests at pod level ...
        (
            pod([box()], resources={"requests": {"memory": "1M"}}, overhead={"cpu": "1m"}),
            (1, 10**6),
            (1, 10**6),
        ),
        # ... but not of one without.
        (pod([box()], overhead={"cpu": "1m"}), (1, None), (101, 200 * MI)),
        (pod([]), (None, None), (None, None)),
        (pod([], resources={"requests": {"memory": "1M"}}), (None, 10**6), (None, 10**6)),
    ],
)
def test_what_scores_take_a_placed_pod_to_use(given, requested, nonzero):
    assert cpu_memory(given.placed_requests) == requested
    assert cpu_memory(given.nonzero_requests) == nonzero


OVERHEAD = {"cpu": "1", "memory": "1Mi"}


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        (pod([], overhead=OVERHEAD), 1000, MI),
        (pod([box()]), 100, 200 * MI),
        (pod([box(), box()]), 200, 400 * MI),
        (pod([box("1 1Mi"), box()], overhead=OVERHEAD), 2100, 202 * MI),
        (
            pod([box("1 1Mi"), box()], [box("3")], overhead=OVERHEAD),
            4000,
            202 * MI,
        ),
        (pod([box("3m 3")], [box(), box("1m 1")]), 100, 200 * MI),
        (pod([box("3m 3"), box()], [box(), box("1m 1")]), 103, 200 * MI + 3),
        # Neither pod level nor status counts here.
        (pod([box("1 1Mi")], resources={"requests": {"cpu": "9"}}), 1000, MI),
        (pod([box("1 1Mi", "c")], status=status(("c", "9", None))), 1000, MI),
    ],
)
def test_what_scores_take_an_incoming_pod_to_use(given, cpu, memory):
    assert cpu_memory(given.scored_requests) == (cpu, memory)


@pytest.mark.parametrize(
    ("name", "extended", "counts"),
    [
        ("example.com/gpu", True, True),
        ("kubernetes.io/x", False, True),
        ("sub.kubernetes.io/x", False, True),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-x", False, True),
        ("requests.example.com/gpu", False, False),
        ("storage", False, False),
        ("foo", False, False),
        ("example.com/bad name", False, False),
        ("Example.com/gpu", False, False),
        ("example.com/", False, False),
        ("example.com/a/b", False, False),
    ],
)
def test_which_names_count_beside_cpu_and_memory(name, extended, counts):
    assert (is_extended(name), is_scalar(name)) == (extended, counts)
    given = make_pod(requests={name: "2"})
    assert given.requests == ({name: 2} if counts else {})


def test_units():
    given = make_pod(
        requests={"cpu": "1500u", "ephemeral-storage": "0.5Ki", "example.com/x": "0", "pods": "3"}
    )

    assert given.requests == {"cpu": 2, "ephemeral-storage": 512, "example.com/x": 0}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (pod([box("1"), box("x")]), "spec.containers[1].resources.requests[cpu]"),
        (pod([box("1")], [box("x")]), "spec.initContainers[0].resources.requests[cpu]"),
        (pod([box("1")], overhead={"cpu": "x"}), "spec.overhead[cpu]"),
        (pod([], resources={"requests": {"cpu": "x"}}), "spec.resources.requests[cpu]"),
        (pod([box("1", "c")], status=status(("c", "x", None))), "status of c[cpu]"),
    ],
)
def test_what_cannot_be_read_is_named(given, field):
    with pytest.raises(MalformedObject) as caught:
        given.check()

    assert caught.value.field == field


def test_a_bound_pod_keeps_what_was_computed():
    given = make_pod(requests="1 cpu")
    requests = given.requests

    assert given.on("a").requests is requests
    assert given.on("a").node_name == "a"
    assert given.node_name == ""
