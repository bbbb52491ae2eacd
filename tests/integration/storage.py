"""Storage classes, volumes and claims on a real API server.

`Storage.provision` is the provisioner.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hack.api import MERGE_PATCH, ApiError
from tests.integration.world import until

if TYPE_CHECKING:
    from hack.api import Json
    from tests.integration.world import World

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
DRIVER = "csi.example.com"
SELECTED = "volume.kubernetes.io/selected-node"


def mounting(*claims: str) -> list[Json]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


class Storage:
    """Classes, volumes and claims of one test; all its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[str] = []

    def _post(self, where: str, body: Json) -> str:
        self._world.plane.request("POST", where, body)
        name: str = body["metadata"]["name"]
        self._made.append(f"{where}/{name}")
        return name

    def name(self, name: str) -> str:
        """Return a name that no other test has."""
        return f"{self._world.namespace}-{name}"

    def storage_class(
        self, name: str = "local", *, provisioner: str = "kubernetes.io/no-provisioner"
    ) -> str:
        body = {
            "metadata": {"name": self.name(name)},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        return self._post("/apis/storage.k8s.io/v1/storageclasses", body)

    def volume(
        self,
        name: str,
        of: str,
        *,
        size: str = "1Gi",
        within: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        modes: tuple[str, ...] = ("ReadWriteOnce",),
        claimed: Json | None = None,
    ) -> str:
        body: Json = {
            "metadata": {"name": self.name(name), "labels": labels or {}},
            "spec": {
                "storageClassName": of,
                "capacity": {"storage": size},
                "accessModes": list(modes),
                "csi": {"driver": DRIVER, "volumeHandle": self.name(name)},
                **({"claimRef": claimed} if claimed else {}),
            },
        }
        if within:
            terms = [
                {"key": key, "operator": "In", "values": [value]} for key, value in within.items()
            ]
            required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
            body["spec"]["nodeAffinity"] = {"required": required}
        return self._post("/api/v1/persistentvolumes", body)

    def claim(self, name: str, of: str, *, size: str = "1Gi", mode: str = "ReadWriteOnce") -> str:
        body = {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": of,
                "accessModes": [mode],
                "resources": {"requests": {"storage": size}},
            },
        }
        self._world.create("v1/persistentvolumeclaims", body)
        return name

    def read_claim(self, name: str) -> Json:
        path = f"/api/v1/namespaces/{self._world.namespace}/persistentvolumeclaims/{name}"
        return self._world.plane.request("GET", path)

    def read_volume(self, name: str) -> Json:
        return self._world.plane.request("GET", f"/api/v1/persistentvolumes/{name}")

    def selected_node(self, name: str) -> str:
        annotations = self.read_claim(name)["metadata"].get("annotations", {})
        found: str = annotations.get(SELECTED, "")
        return found

    def await_selected_node(self, name: str) -> str:
        found: str = until(lambda: self.selected_node(name), f"a node is selected for {name}")
        return found

    def deselect(self, name: str) -> None:
        """Take the selected node away, as a provisioner does that gives up."""
        path = f"/api/v1/namespaces/{self._world.namespace}/persistentvolumeclaims/{name}"
        body = {"metadata": {"annotations": {SELECTED: None}}}
        self._world.plane.request("PATCH", path, body, content_type=MERGE_PATCH)

    def provision(self, name: str, of: str) -> None:
        """Make a volume for a claim on its selected node, as a provisioner does.

        The volume controller then binds both to each other.
        """
        node = self.await_selected_node(name)
        claim = self.read_claim(name)["metadata"]
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": claim["namespace"],
            "name": name,
            "uid": claim["uid"],
        }
        self.volume(f"made-{name}", of, within={HOST: node}, claimed=reference)

    def await_bound(self, name: str) -> None:
        until(lambda: self.read_claim(name)["status"].get("phase") == "Bound", f"{name} is bound")

    def limits(self, node: str, count: int) -> None:
        """Say how many volumes of the driver a node takes, as its kubelet does."""
        driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}
        body = {"metadata": {"name": node}, "spec": {"drivers": [driver]}}
        self._post("/apis/storage.k8s.io/v1/csinodes", body)

    def measure(self, of: str, size: str, zone: str) -> str:
        """Say how much the driver could still make in a zone."""
        driver = {"metadata": {"name": self.driver}, "spec": {"storageCapacity": True}}
        with contextlib.suppress(ApiError):
            self._post("/apis/storage.k8s.io/v1/csidrivers", driver)
        where = f"/apis/storage.k8s.io/v1/namespaces/{self._world.namespace}/csistoragecapacities"
        body = {
            "metadata": {"name": zone},
            "storageClassName": of,
            "capacity": size,
            "nodeTopology": {"matchLabels": {ZONE: zone}},
        }
        self._post(where, body)
        return f"{where}/{zone}"

    @property
    def driver(self) -> str:
        """The name of a driver that is this test's own."""
        return f"{self._world.namespace}.example.com"

    def clear(self) -> None:
        """Delete everything that lives in no namespace, volumes in the end."""
        for path in self._made:
            with contextlib.suppress(ApiError):
                self._world.plane.request("DELETE", path)
            if "persistentvolumes" in path:
                # A volume that is still claimed would be protected for as long as the claim is.
                with contextlib.suppress(ApiError):
                    body = {"metadata": {"finalizers": None}}
                    self._world.plane.request("PATCH", path, body, content_type=MERGE_PATCH)
