"""Pods of different importance, and what becomes of them: the words of the preemption tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hack.api import NotFoundError
from tests.integration.world import until

if TYPE_CHECKING:
    from hack.api import Json
    from tests.integration.world import World

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES = {"test-low": -10, "test-mid": 100, "test-high": 1000, "test-highest": 10000}


def pod(world: World, of: str, *, cpu: str = "1", grace: int = 0, **more: Any) -> str:
    """Create a pod of the priority class ``test-<of>``."""
    return world.pod(
        cpu=cpu,
        priorityClassName=f"test-{of}",
        terminationGracePeriodSeconds=grace,
        **more,
    )


def gone(world: World, name: str) -> bool:
    """Tell whether a pod is gone altogether."""
    try:
        world.read(name)
    except NotFoundError:
        return True
    return False


def expect_gone(world: World, *names: str) -> None:
    """Wait until all of the pods are gone."""
    for name in names:
        until(lambda name=name: gone(world, name), f"{name} is gone")


def running(world: World, name: str, on: str) -> str:
    """Wait until a pod runs on a node; return its name."""
    world.expect_scheduled(name, on=on)
    until(lambda: world.read(name)["status"].get("phase") == "Running", f"{name} runs")
    return name


def filler(world: World, of: str, on: str, **more: Any) -> str:
    """Create a pod that can go to one node only, and wait until it runs there."""
    selector = {"kubernetes.io/hostname": on}
    return running(world, pod(world, of, nodeSelector=selector, **more), on)


def condition(world: World, name: str, kind: str) -> Json | None:
    """Return a condition of a pod."""
    found = world.read(name)["status"].get("conditions", ())
    return next((each for each in found if each["type"] == kind), None)


def nominated(world: World, name: str) -> str:
    """Return a pod's nominated node; empty where it has none."""
    found: str = world.read(name)["status"].get("nominatedNodeName", "")
    return found


def expect_nominated(world: World, name: str, on: str) -> None:
    """Wait until a pod is nominated to a node; empty for none."""
    until(lambda: nominated(world, name) == on, f"{name} is nominated to {on or 'no node'}")


def stays(world: World, *names: str) -> bool:
    """Tell whether none of the pods has been told to go."""
    return not any("deletionTimestamp" in world.read(name)["metadata"] for name in names)


def budget(world: World, name: str, labels: dict[str, str], healthy: int, **limit: int) -> None:
    """Create a disruption budget, and wait until so many pods are counted *healthy*."""
    body = {"metadata": {"name": name}, "spec": {**limit, "selector": {"matchLabels": labels}}}
    world.create("policy/v1/poddisruptionbudgets", body)
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/{name}"
    until(
        lambda: world.plane.request("GET", path).get("status", {}).get("currentHealthy") == healthy,
        f"{name} counts {healthy}",
    )
    world.settle()
