"""What a kubelet says to a pod that was bound to its node."""

from __future__ import annotations

import pytest

from hack.admission import admit, amount, requests_of
from hack.nodes import node


def _container(name="main", *, always=False, ports=(), **requests):
    resources = {key.replace("_", "-"): value for key, value in requests.items()}
    return {
        "name": name,
        "resources": {"requests": resources},
        "ports": list(ports),
        **({"restartPolicy": "Always"} if always else {}),
    }


def _pod(*containers, init=(), **spec):
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        ("cpu", "1", 1000),
        ("cpu", "100m", 100),
        ("cpu", "1500u", 2),
        ("cpu", "0.1", 100),
        ("cpu", 2, 2000),
        ("memory", "1Gi", 1 << 30),
        ("memory", "1.5Gi", 3 << 29),
        ("memory", "5k", 5000),
        ("memory", "12E", 12 * 10**18),
        ("memory", "12E6", 12 * 10**6),
        ("memory", "1e3", 1000),
        ("memory", "100m", 1),
        ("example.com/gpu", "8", 8),
    ],
)
def test_quantities(resource, quantity, expected):
    assert amount(resource, quantity) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(_pod(_container()), {}, id="nothing asked for"),
        pytest.param(_pod(_container(cpu="1"), _container(cpu="500m")), {"cpu": 1500}, id="sum"),
        pytest.param(
            _pod(_container(cpu="1"), init=[_container(cpu="3"), _container(cpu="2")]),
            {"cpu": 3000},
            id="an init container runs alone",
        ),
        pytest.param(
            _pod(_container(cpu="1"), init=[_container(cpu="2", always=True)]),
            {"cpu": 3000},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            _pod(
                _container(cpu="1"),
                init=[_container(cpu="2", always=True), _container(cpu="4")],
            ),
            {"cpu": 6000},
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            _pod(
                _container(cpu="1"),
                init=[_container(cpu="4"), _container(cpu="2", always=True)],
            ),
            {"cpu": 4000},
            id="but not beside earlier ones",
        ),
        pytest.param(
            _pod(_container(cpu="1", memory="1Gi"), overhead={"cpu": "250m"}),
            {"cpu": 1250, "memory": 1 << 30},
            id="overhead",
        ),
        pytest.param(
            _pod(
                _container(cpu="1", memory="1k"),
                resources={"requests": {"cpu": "500m"}},
                overhead={"cpu": "1m"},
            ),
            {"cpu": 501, "memory": 1000},
            id="pod level",
        ),
    ],
)
def test_requests(pod, expected):
    assert dict(requests_of(pod)) == expected


def test_a_pod_that_fits_is_admitted():
    other = _pod(_container(cpu="3"))
    assert admit(_pod(_container(cpu="1")), node("n", cpu="4"), [other]) is None


def test_the_texts_of_a_refusal_are_the_kubelets():
    refusal = admit(_pod(_container(cpu="1")), node("n", cpu="4"), [_pod(_container(cpu="3500m"))])
    assert refusal is not None
    assert refusal.reason == "OutOfcpu"
    assert refusal.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, "
        "requested: 1000, used: 3500, capacity: 4000"
    )


FIELD_TERM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}


def _affinity(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _expression(operator, *values, key="disk"):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


WEB = {"hostPort": 80, "containerPort": 80, "protocol": "TCP"}
EVICTING = {"key": "down", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("pod", "others", "changes", "reason"),
    [
        (_pod(_container()), [_pod(_container())], {"pods": 1}, "OutOfpods"),
        (_pod(_container(memory="2Gi")), [], {"memory": "1Gi"}, "OutOfmemory"),
        (
            _pod(_container(ephemeral_storage="2Gi")),
            [],
            {"capacity": {"ephemeral-storage": "1Gi"}},
            "OutOfephemeral-storage",
        ),
        (
            _pod({"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}),
            [],
            {"capacity": {"example.com/gpu": "1"}},
            "OutOfexample.com/gpu",
        ),
        (_pod({"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}), [], {}, None),
        (_pod(_container(), nodeSelector={"disk": "fast"}), [], {}, "NodeAffinity"),
        (
            _pod(_container(), nodeSelector={"disk": "fast"}),
            [],
            {"labels": {"disk": "fast"}},
            None,
        ),
        (_pod(_container(cpu="9"), nodeSelector={"disk": "fast"}), [], {}, "OutOfcpu"),
        (_pod(_container(), affinity=_affinity({})), [], {}, "NodeAffinity"),
        (_pod(_container(), affinity=_affinity({}, FIELD_TERM)), [], {}, None),
        (_pod(_container(), affinity=_affinity(_expression("Exists"))), [], {}, "NodeAffinity"),
        (_pod(_container(), affinity=_affinity(_expression("DoesNotExist"))), [], {}, None),
        (_pod(_container(), affinity=_affinity(_expression("NotIn", "slow"))), [], {}, None),
        (
            _pod(_container(), affinity=_affinity(_expression("Gt", "3"))),
            [],
            {"labels": {"disk": "4"}},
            None,
        ),
        (
            _pod(_container(), affinity=_affinity(_expression("Lt", "3"))),
            [],
            {"labels": {"disk": "many"}},
            "NodeAffinity",
        ),
        (_pod(_container(ports=[WEB])), [_pod(_container(ports=[WEB]))], {}, "NodePorts"),
        (
            _pod(_container(ports=[{**WEB, "hostIP": "10.0.0.1"}])),
            [_pod(_container(ports=[{**WEB, "hostIP": "10.0.0.2"}]))],
            {},
            None,
        ),
        (_pod(_container()), [], {"taints": [EVICTING]}, "TaintToleration"),
        (_pod(_container()), [], {"taints": [{**EVICTING, "effect": "NoSchedule"}]}, None),
        (
            _pod(_container(), tolerations=[{"key": "down", "operator": "Exists"}]),
            [],
            {"taints": [EVICTING]},
            None,
        ),
        (
            _pod(_container(), tolerations=[{"key": "down", "value": "often"}]),
            [],
            {"taints": [EVICTING]},
            "TaintToleration",
        ),
    ],
)
def test_reasons(pod, others, changes, reason):
    refusal = admit(pod, node("n", **changes), others)
    assert (refusal.reason if refusal else None) == reason
