"""One cluster for all scenarios, by whichever provider was asked for; each test is another team.

`--provider=kind` asks for kind instead of the local control plane. Few tests are for one provider
alone (``only``): they look at what the other one does not have.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest

from hack.binaries import MissingBinariesError
from hack.kind import NAME, NODE_IMAGE, Settings, engine_missing
from tests.e2e.cluster import inventory
from tests.e2e.local import LocalCluster
from tests.e2e.on_kind import KindCluster
from tests.e2e.team import Team

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.cluster import Cluster

_numbers = itertools.count(1)
# The first scenario waits for the image, the nodes and the release.
_KIND_SECONDS = 1200


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e", "scenarios on a cluster (tests/e2e)")
    group.addoption("--provider", choices=["local", "kind"], default="local")
    group.addoption("--name", help=f"name of the kind cluster (default: {NAME})")
    group.addoption("--image", help=f"image of its nodes (default: {NODE_IMAGE})")
    group.addoption("--keep", action="store_true", help="keep the kind cluster for the next run")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what looks back on all scenarios, or ends them, behind all others."""
    items.sort(key=_rank)
    others = [item for item in items if _is_of_another(item, _provider(config))]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    if _provider(config) == "kind":
        for item in items:
            item.add_marker(pytest.mark.timeout(_KIND_SECONDS))


def _provider(config: pytest.Config) -> str:
    # The option is unknown where only a folder above was named.
    chosen: str = config.getoption("--provider", default="local")
    return chosen


def _is_of_another(item: pytest.Item, provider: str) -> bool:
    only = item.get_closest_marker("only")
    return only is not None and only.args != (provider,)


def _rank(item: pytest.Item) -> int:
    last = item.get_closest_marker("last")
    return last.args[0] if last else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show what the replicas said beside a failure."""
    report = yield
    if report.failed and "cluster" in getattr(item, "funcargs", {}):
        for name, tail in item.funcargs["cluster"].logs().items():
            report.sections.append((f"log of {name}", tail))
    return report


@pytest.fixture(scope="session")
def found_before() -> set[str]:
    """What the cluster held before the chart was installed."""
    return set()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, found_before: set[str]) -> Iterator[Cluster]:
    """A cluster with the chart installed; the provider is that of ``--provider``."""
    provided = LocalCluster()
    if _provider(request.config) == "kind":
        if why := engine_missing():
            # What needs Docker is all that may be skipped, and tells why; nobody asks for kind but
            # by name.
            pytest.skip(f"kind has nothing to run containers with: {why}")
        chosen = {name: request.config.getoption(f"--{name}") for name in ("name", "image", "keep")}
        provided = KindCluster(Settings.chosen(**chosen))
    with contextlib.ExitStack() as stack:
        try:
            started = stack.enter_context(provided)
        except MissingBinariesError as error:
            # Never a skip: a green run must mean that the scenarios ran.
            pytest.fail(str(error), pytrace=False)
        found_before |= inventory(started)
        started.install()
        yield started


@pytest.fixture
def team(cluster: Cluster) -> Iterator[Team]:
    """A team of its own, with all seats of the cluster free."""
    with Team(cluster, f"team-{next(_numbers)}") as made:
        yield made
