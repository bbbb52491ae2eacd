"""One real control plane and one py-scheduler for all integration tests of a run.

Each test has a namespace of its own and finds no nodes. A test that breaks things (stops the API
server, wants other flags) starts a `ControlPlane` of its own: that takes three to four seconds. One
that breaks a scheduler starts another `scheduler_process` under another name.
"""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hack.binaries import MissingBinariesError
from hack.control_plane import ControlPlane
from tests.integration.proxy import Proxy
from tests.integration.ranks import CLASSES, PRIORITIES
from tests.integration.storage import Storage
from tests.integration.world import (
    RESOURCE,
    Scheduler,
    World,
    configuration,
    install_resource,
    profile,
    running,
    scheduler_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.processes import Process

ACCOUNT = tuple(
    Path(__file__).parents[2] / "deploy" / name for name in ("serviceaccount.yaml", "rbac.yaml")
)
PROFILES = (
    profile("py-scheduler"),
    profile("least", score=["NodeResourcesFit"]),
    profile(
        "most",
        score=["NodeResourcesFit"],
        NodeResourcesFit={
            "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}
        },
    ),
    profile("balanced", score=["NodeResourcesBalancedAllocation"]),
    profile("images", score=["ImageLocality"]),
    profile("affinity", score=["NodeAffinity"]),
    profile("taints", score=["TaintToleration"]),
    profile("spread", score=["PodTopologySpread"]),
    profile(
        "hard-by-default",
        PodTopologySpread={
            "defaultingType": "List",
            "defaultConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                }
            ],
        },
    ),
    profile(
        "only-fast",
        NodeAffinity={
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "disk", "operator": "In", "values": ["fast"]}
                            ]
                        }
                    ]
                }
            }
        },
    ),
)

_numbers = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show what the schedulers said beside a failure."""
    report = yield
    if report.failed:
        for each in running:
            report.sections.append((f"log of {each.process.name}", each.process.tail(40)))
    if report.when == "teardown":
        running[:] = [each for each in running if each.process.running]
    return report


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager, shared by the run.

    Nodes live in no namespace: give them names of your own, pods that can go nowhere else, and
    delete them at the end.
    """
    with contextlib.ExitStack() as stack:
        try:
            plane = stack.enter_context(ControlPlane())
        except MissingBinariesError as error:
            # Never a skip: a green run must mean that these tests ran.
            pytest.fail(str(error), pytrace=False)
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace with its default service account; deleted in the background."""
    name = f"test-{next(_numbers)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Callable[..., str]:
    """``kubectl("get", "nodes")``, as administrator, on the shared control plane."""
    return control_plane.kubectl


@pytest.fixture(scope="session")
def scheduler(control_plane: ControlPlane) -> Iterator[Scheduler]:
    """One py-scheduler for the run, with many profiles and no permission but the chart's."""
    for path in ACCOUNT:
        control_plane.kubectl("apply", "-f", str(path))
    kubeconfig = control_plane.service_account_kubeconfig("kube-system", "py-scheduler")
    document = configuration(profiles=list(PROFILES))
    with scheduler_process(control_plane, kubeconfig=kubeconfig, config=document) as started:
        yield started
        # All that it did, it was allowed to do.
        assert not started.lines("watch.refused")
        assert [line["error"] for line in started.lines("pod_status.failed")] == []
        assert started.metric("rest_client_requests_total", code="403") == 0


@pytest.fixture(scope="module")
def resource(control_plane: ControlPlane) -> Iterator[None]:
    """The resource of configurations that are told by an object, as the chart installs it."""
    install_resource(control_plane)
    yield
    # Awaited, since the next module may install it again.
    control_plane.kubectl("delete", RESOURCE)


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str, scheduler: Scheduler) -> Iterator[World]:
    """A namespace without pods in a cluster without nodes, looked after by the run's scheduler."""
    with contextlib.ExitStack() as stack:
        world = World(control_plane, namespace, scheduler)
        stack.callback(world.clear)
        yield world


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[Proxy]:
    """A way to the shared control plane that can be broken."""
    with Proxy(control_plane) as started:
        yield started


@pytest.fixture
def proxied(control_plane: ControlPlane, proxy: Proxy, world: World) -> Iterator[Scheduler]:
    """A scheduler of its own, named ``proxied``, that reaches the API server by the proxy."""
    document = configuration(profiles=[profile("proxied")])
    with scheduler_process(control_plane, kubeconfig=proxy.kubeconfig, config=document) as started:
        world.schedulers = (*world.schedulers, started)
        yield started
        world.schedulers = world.schedulers[:-1]


@pytest.fixture
def storage(world: World) -> Iterator[Storage]:
    """Storage of this test alone; what lives in no namespace is deleted at the end."""
    with contextlib.ExitStack() as stack:
        storage = Storage(world)
        stack.callback(storage.clear)
        yield storage


@pytest.fixture(scope="session")
def classes(control_plane: ControlPlane) -> Iterator[tuple[str, ...]]:
    """Priority classes, from the least important to the most."""
    for name, value in PRIORITIES.items():
        control_plane.request("POST", CLASSES, {"metadata": {"name": name}, "value": value})
    yield tuple(PRIORITIES)
    for name in PRIORITIES:
        control_plane.request("DELETE", f"{CLASSES}/{name}")


@pytest.fixture
def kubelet(
    control_plane: ControlPlane, world: World, classes: tuple[str, ...]
) -> Iterator[Process]:
    """A kubelet for all nodes: it admits pods in order, and lets them end in their own time."""
    started = control_plane.start_admitting_kubelet()
    yield started
    started.stop()
