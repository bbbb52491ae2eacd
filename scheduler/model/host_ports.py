"""Host ports: which ones a pod uses, and which ones conflict.

Source: ``kube-scheduler/framework/types.go`` (HostPortInfo).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.model.containers import Container
from scheduler.model.meta import Struct

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a wildcard in a pod's spec


class HostPort(Struct, frozen=True):
    """A port on the host; ``0.0.0.0`` stands for every address."""

    ip: str
    protocol: str
    port: int


def host_ports_of(containers: Iterable[Container]) -> Iterator[HostPort]:
    """Yield the host ports of *containers*, with Kubernetes' defaults filled in."""
    for container in containers:
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(
                    ip=port.host_ip or _ANY_ADDRESS,
                    protocol=port.protocol or "TCP",
                    port=port.host_port,
                )


def ports_conflict(wanted: HostPort, used: HostPort) -> bool:
    """Tell whether two host ports conflict; the wildcard address conflicts with every address."""
    if (wanted.protocol, wanted.port) != (used.protocol, used.port):
        return False
    return _ANY_ADDRESS in {wanted.ip, used.ip} or wanted.ip == used.ip
