"""Where the scenarios happen: what they need of a cluster, whoever provides it.

A provider gives a cluster of one tainted control plane and three workers in two zones, with
py-scheduler installed by its chart under `RELEASE`, two replicas of it running, and `SEATS` seats
(an extended resource, so that nobody else takes one) on each worker. `tests.e2e.local` does it with
the local control plane, `tests.e2e.on_kind` with kind.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hack import waiting
from hack.api import NotFoundError, request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hack.api import Json
    from hack.kubeconfig import Access

VALUES: Final = Path(__file__).with_name("values.yaml")
RELEASE: Final = "py-scheduler"
NAMESPACE: Final = "kube-system"
READER: Final = "prometheus"
SEAT: Final = "example.com/seat"
SEATS: Final = 4
BACKOFF_SECONDS: Final = 1.0
"""The longest backoff: that of `VALUES`."""
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
ZONES: Final = ("west", "west", "east")
"""The zones of the workers: of different sizes, so that spreading over them shows."""

_DEADLINE_SECONDS: Final = 60.0
# They come and go by themselves, whatever is installed.
_RESTLESS: Final = {"events", "endpoints", "endpointslices", "leasecandidates", "componentstatuses"}


def until(holds: Callable[[], Any], what: str, *, seconds: float = _DEADLINE_SECONDS) -> Any:
    """Ask until *holds* returns something true, and return that."""
    return waiting.until(holds, what, seconds=seconds)


class Replica(Protocol):
    """One running py-scheduler."""

    name: str

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        """Ask its endpoint, as whoever has *token*; return status and body."""


class Cluster(Protocol):
    """A cluster with py-scheduler in it."""

    @property
    def access(self) -> Access:
        """How an administrator is let in."""

    def replicas(self) -> Sequence[Replica]:
        """Return those that run."""

    def kill(self, replica: Replica) -> None:
        """End one as ``kill -9`` does; another one is started in its place."""

    def upgrade(self, values: Json, *, then: Callable[[], object] = ...) -> None:
        """Run ``helm upgrade`` with further values; return when all replicas run with them.

        *then* is called when the objects are there and before anything is waited for.
        """

    def refuse(self, values: Json) -> str:
        """The same with bad ones: return what the first new replica said, and roll back."""

    def check(self) -> str:
        """Return what ``py-scheduler check`` prints in the scheduler's place."""

    def uninstall(self) -> None:
        """Run ``helm uninstall``; return when no replica runs any more."""

    def logs(self) -> dict[str, str]:
        """Return the last lines of every replica's log, by its name."""


def ask(cluster: Cluster, method: str, path: str, body: Json | None = None, **more: str) -> Json:
    """Ask the API server as administrator."""
    return request(cluster.access, method, path, body, **more)


def exists(cluster: Cluster, path: str) -> bool:
    """Tell whether there is an object at *path*."""
    try:
        ask(cluster, "GET", path)
    except NotFoundError:
        return False
    return True


def workers(cluster: Cluster) -> dict[str, str]:
    """Return the zone of each worker, by its name."""
    labels = {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in ask(cluster, "GET", "/api/v1/nodes")["items"]
    }
    return {name: of[ZONE] for name, of in sorted(labels.items()) if CONTROL_PLANE not in of}


def token_of(cluster: Cluster, account: str, namespace: str = NAMESPACE) -> str:
    """Return a token of an account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = ask(cluster, "POST", path, body)["status"]["token"]
    return token


def leader(cluster: Cluster) -> Replica:
    """Wait until one replica leads, and return it."""
    token = token_of(cluster, READER)

    def leading() -> list[Replica]:
        return [each for each in cluster.replicas() if _leads(each, token)]

    found: list[Replica] = until(leading, "a replica leads")
    assert len(found) == 1, found
    return found[0]


def _leads(replica: Replica, token: str) -> bool:
    try:
        status, text = replica.get("/metrics", token)
    except OSError:  # it is on its way, or gone
        return False
    return status == 200 and bool(
        re.search(r"^leader_election_master_status\{.*\} 1(\.0)?$", text, re.MULTILINE)
    )


def inventory(cluster: Cluster) -> set[str]:
    """Return the paths of all objects, but those that come and go by themselves."""
    groups = ask(cluster, "GET", "/apis")["groups"]
    paths = ["/api/v1", *(f"/apis/{of['preferredVersion']['groupVersion']}" for of in groups)]
    found = set()
    for path in paths:
        for resource in _there(cluster, path, "resources"):
            if "list" in resource["verbs"] and resource["name"] not in _RESTLESS:
                for each in _there(cluster, f"{path}/{resource['name']}", "items"):
                    metadata = each["metadata"]
                    place = metadata.get("namespace", "")
                    found.add(f"{path}/{place}/{resource['name']}/{metadata['name']}")
    return found


def _there(cluster: Cluster, path: str, field: str) -> list[Any]:
    """Return what is listed at *path*: nothing, where its resource went while we were asking."""
    try:
        return list(ask(cluster, "GET", path)[field])
    except NotFoundError:
        return []
