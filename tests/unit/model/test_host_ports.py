"""Ports on the host: which a pod wants, and which collide."""

import pytest

from scheduler.model.host_ports import HostPort, ports_conflict
from scheduler.testing import make_pod


def port(number, ip="0.0.0.0", protocol="TCP"):
    return HostPort(ip=ip, protocol=protocol, port=number)


def test_host_ports_of_sidecars_and_containers():
    """Plain init containers are over before the others run; a port without a host port is none."""
    pod = make_pod(
        containers=[
            {"ports": [{"containerPort": 80}, {"hostPort": 80}]},
            {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
        ],
        init_containers=[
            {"ports": [{"hostPort": 1}]},
            {"ports": [{"hostPort": 2}], "restartPolicy": "Always"},
        ],
    )

    assert pod.host_ports == (port(2), port(80), port(53, "10.0.0.1", "UDP"))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80), port(80, protocol="UDP"), False),
        (port(80, "127.0.0.1"), port(80), True),
        (port(80, "127.0.0.1"), port(80, "127.0.0.1"), True),
        (port(80, "127.0.0.1"), port(80, "127.0.0.2"), False),
        (port(80, "::"), port(80, "127.0.0.1"), False),
    ],
)
def test_ports_conflict_either_way_round(one, other, conflict):
    assert ports_conflict(one, other) is conflict
    assert ports_conflict(other, one) is conflict
