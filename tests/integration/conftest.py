"""One real control plane for all integration tests of a run, and a namespace for each test.

A test that breaks things (stops the API server, wants other flags) starts a `ControlPlane` of its
own: that takes three to four seconds.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest

from hack.binaries import MissingBinariesError
from hack.control_plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count(1)


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
