"""Containers of a pod: the fields that scheduling reads."""

import msgspec

from scheduler.model.meta import Struct
from scheduler.model.resources import QuantityMap, ResourceRequirements


class ContainerPort(Struct, frozen=True):
    """A port of a container."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Struct, frozen=True):
    """What the kubelet does when a container exits."""

    action: str = ""


class Container(Struct, frozen=True):
    """A container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()

    @property
    def sidecar(self) -> bool:
        """Whether it is a sidecar, if it is an init container: it keeps running with the others."""
        return self.restart_policy == "Always"


class ContainerStatus(Struct, frozen=True):
    """The resources that the kubelet allocated and actuated for a container (in-place resize)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap = {}
