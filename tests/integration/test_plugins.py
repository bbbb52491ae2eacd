"""Every plugin binds and refuses on a real API server, in upstream's words."""

from __future__ import annotations

import pytest

from hack.nodes import node
from tests.integration.world import refused, until

pytestmark = pytest.mark.integration

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
GPU = "example.com/gpu"

AFFINITY = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
TAINT = "node(s) had untolerated taint(s)"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"


def required(*expressions, fields=()):
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


def among(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def spread(topology=ZONE, *, skew=1, how="DoNotSchedule", app="web", **more):
    return {
        "topologyKey": topology,
        "maxSkew": skew,
        "whenUnsatisfiable": how,
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


# NodeName, NodeUnschedulable, TaintToleration


def test_pod_that_names_its_node_is_not_ours(world):
    """A pod created with a node is bound already; its room counts all the same."""
    world.nodes("a", cpu="2")
    world.pod("named", cpu="2", nodeName="a")

    world.expect_unschedulable(world.pod(cpu="1"), refused(1, "Insufficient cpu"))


def test_cordoned_node_takes_only_pods_that_tolerate_it(world):
    world.nodes("a", unschedulable=True)

    world.expect_unschedulable(world.pod(), refused(1, "node(s) were unschedulable"))
    brave = world.pod(
        tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    )
    world.expect_scheduled(brave, on="a")


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_tainted_node_takes_only_pods_that_tolerate_it(world, effect):
    world.nodes("a", taints=[{"key": "dedicated", "value": "ml", "effect": effect}])
    toleration = {"key": "dedicated", "operator": "Equal", "effect": effect}

    world.expect_unschedulable(world.pod(), refused(1, TAINT))
    other = world.pod(tolerations=[{**toleration, "value": "db"}])
    world.expect_unschedulable(other, refused(1, TAINT))
    world.expect_scheduled(world.pod(tolerations=[{**toleration, "value": "ml"}]), on="a")


def test_preferably_avoided_node_is_taken_last(world):
    """PreferNoSchedule never refuses; it only costs score."""
    world.nodes("avoided", taints=[{"key": "old", "effect": "PreferNoSchedule"}])
    world.nodes("better")

    world.expect_scheduled(world.pod(cpu="3", scheduler="taints"), on="better")
    world.expect_scheduled(world.pod(cpu="3", scheduler="taints"), on="avoided")


# NodeAffinity


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "fast"}},
        {"affinity": required(among("disk", "In", "fast", "fastest"))},
        {"affinity": required(among("disk", "NotIn", "slow"), among("size", "Gt", "5"))},
        {"affinity": required(among("disk", "Exists"), among("size", "Lt", "20"))},
        {"affinity": required(fields=[among("metadata.name", "In", "fast")])},
    ],
    ids=["selector", "in", "not-in-and-gt", "exists-and-lt", "field"],
)
def test_required_affinity_is_kept(world, spec):
    world.nodes("plain")
    bare = world.pod(**spec)
    if "matchFields" in str(spec) and "metadata.name" in str(spec):
        # No node of that name: the names are looked up rather than every node judged.
        until(lambda: "PodScheduled" in str(world.read(bare)["status"]))
    else:
        world.expect_unschedulable(bare, refused(1, AFFINITY))

    world.nodes("fast", labels={"disk": "fast", "size": "10"})
    world.expect_scheduled(bare, on="fast")


def test_missing_label_does_not_match_absence(world):
    """DoesNotExist refuses whoever has the label."""
    world.nodes("a", labels={"disk": "fast"})

    pod = world.pod(affinity=required(among("disk", "DoesNotExist")))
    world.expect_unschedulable(pod, refused(1, AFFINITY))


def test_preferred_affinity_decides_among_equals(world):
    world.nodes("a", "b", "c")
    world.label_node("b", disk="fast")
    term = {"weight": 100, "preference": {"matchExpressions": [among("disk", "In", "fast")]}}
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}

    for _ in range(3):
        world.expect_scheduled(world.pod(affinity=preferred, scheduler="affinity"), on="b")


def test_profile_adds_its_own_affinity(world):
    world.nodes("slow")

    pod = world.pod(scheduler="only-fast")
    world.expect_unschedulable(pod, refused(1, ENFORCED))
    world.expect_scheduled(world.pod(), on="slow")
    world.nodes("fast", labels={"disk": "fast"})
    world.expect_scheduled(pod, on="fast")


# NodePorts


def test_host_port_is_taken_once_a_node(world):
    world.nodes("a", "b")

    first, second = world.pod(ports=[8080]), world.pod(ports=[8080])
    assert {world.expect_scheduled(first), world.expect_scheduled(second)} == {"a", "b"}
    world.expect_unschedulable(world.pod(ports=[8080, 9090]), refused(2, PORTS))
    world.expect_scheduled(world.pod(ports=[9090]))


# NodeResourcesFit


@pytest.mark.parametrize(
    ("resource", "amount"),
    [("cpu", "3"), ("memory", "3Gi"), ("ephemeral-storage", "3Gi"), (GPU, "3")],
)
def test_resource_is_never_overcommitted(world, resource, amount):
    capacity = {"ephemeral-storage": "4Gi", GPU: "4"}
    world.nodes("a", cpu="4", memory="4Gi", capacity=capacity)

    world.expect_scheduled(world.pod(requests={resource: amount}), on="a")
    surplus = world.pod(requests={resource: amount})
    world.expect_unschedulable(surplus, refused(1, f"Insufficient {resource}"))
    rest = {"3": "1", "3Gi": "1Gi"}[amount]
    world.expect_scheduled(world.pod(requests={resource: rest}), on="a")


def test_every_shortage_is_named(world):
    world.nodes("a", cpu="1", memory="1Gi", pods=1)
    world.nodes("b", cpu="1", memory="8Gi")
    world.expect_scheduled(world.pod(requests={}, nodeSelector={HOST: "a"}), on="a")

    pod = world.pod(requests={"cpu": "2", "memory": "2Gi", GPU: "1"})
    world.expect_unschedulable(
        pod,
        "0/2 nodes are available: 1 Insufficient memory, 1 Too many pods, "
        f"2 Insufficient cpu, 2 Insufficient {GPU}.",
    )


def test_number_of_pods_is_a_resource(world):
    world.nodes("a", pods=2)

    world.expect_all_scheduled(world.pods(2, requests={}))
    world.expect_unschedulable(world.pod(requests={}), refused(1, "Too many pods"))


def test_init_containers_count_by_their_maximum(world):
    """Init containers run one after another; sidecars stay beside what follows."""
    world.nodes("a", cpu="4")
    big = {"name": "init", "image": "example", "resources": {"requests": {"cpu": "4"}}}
    sidecar = {**big, "name": "side", "restartPolicy": "Always"}

    world.expect_scheduled(world.pod("sequence", cpu="1", initContainers=[big]), on="a")
    world.delete_pod("sequence")
    together = world.pod(cpu="1", initContainers=[sidecar])
    world.expect_unschedulable(together, refused(1, "Insufficient cpu"))


def test_reasons_of_different_nodes_are_counted_and_sorted(world):
    world.nodes("a", cpu="1")
    world.nodes("b", unschedulable=True)
    world.nodes("c", taints=[{"key": "dedicated", "effect": "NoSchedule"}])

    world.expect_unschedulable(
        world.pod(cpu="2"),
        f"0/3 nodes are available: 1 Insufficient cpu, 1 {TAINT}, 1 node(s) were unschedulable.",
    )


# Scores


def test_least_allocated_node_is_preferred(world):
    """Every profile sees what the others have bound."""
    world.nodes("a", "b")
    first = world.expect_scheduled(world.pod(cpu="2"))

    world.expect_scheduled(world.pod(scheduler="least"), on={"a", "b"} - {first})


def test_most_allocated_node_is_preferred_where_configured(world):
    world.nodes("a", "b")
    first = world.expect_scheduled(world.pod(cpu="1", scheduler="most"))

    for _ in range(3):
        world.expect_scheduled(world.pod(cpu="1", scheduler="most"), on=first)
    world.expect_scheduled(world.pod(cpu="1", scheduler="most"), on={"a", "b"} - {first})


def test_balanced_allocation_evens_out_resources(world):
    """A pod heavy in memory goes where CPU is used already."""
    world.nodes("cpu-used", "memory-used", cpu="8", memory="8Gi")
    for name, used in (("cpu-used", "cpu"), ("memory-used", "memory")):
        amount = {"cpu": "4", "memory": "4Gi"}[used]
        world.pod(f"on-{name}", requests={used: amount}, nodeSelector={HOST: name})
        world.expect_scheduled(f"on-{name}", on=name)

    heavy = world.pod(requests={"cpu": "100m", "memory": "4Gi"}, scheduler="balanced")
    world.expect_scheduled(heavy, on="cpu-used")


def test_node_that_holds_the_image_is_preferred(world):
    world.nodes("a", "b")
    described = node("holder", kwok=False)
    described["status"]["images"] = [
        {"names": ["registry.example/large:v1"], "sizeBytes": 900 * 1024 * 1024}
    ]
    world.post_node(described)
    world.await_known_nodes()

    for _ in range(2):
        pod = world.pod(image="registry.example/large:v1", scheduler="images")
        world.expect_scheduled(pod, on="holder")


# PodTopologySpread


def zones(world, **each):
    """Two zones, of two nodes and of one."""
    world.nodes("a1", "a2", zone="a", **each)
    world.nodes("b1", zone="b", **each)
    return {"a1": "a", "a2": "a", "b1": "b"}


def test_hard_spread_is_kept(world):
    groups = zones(world, pods=3)
    labels = {"app": "web"}
    constraints = {"labels": labels, "topologySpreadConstraints": [spread()]}

    placed = world.pods(6, **constraints, cpu="100m")
    world.expect_skew(placed, groups, 0)
    # Zone b is full, and another one in zone a would be two ahead of it.
    late = world.pods(1, **constraints, cpu="100m")
    world.expect_all_scheduled(late)
    last = world.pod(**constraints, cpu="100m")
    world.expect_unschedulable(last, f"0/3 nodes are available: 1 Too many pods, 2 {SPREAD}.")


def test_node_without_the_topology_label_is_refused(world):
    world.nodes("nowhere")

    pod = world.pod(labels={"app": "web"}, topologySpreadConstraints=[spread()])
    world.expect_unschedulable(pod, refused(1, f"{SPREAD} (missing required label)"))


def test_soft_spread_is_kept_while_it_can_be(world):
    groups = zones(world, cpu="3")
    soft = {
        "labels": {"app": "web"},
        "scheduler": "spread",
        "topologySpreadConstraints": [spread(how="ScheduleAnyway")],
    }

    for _ in range(4):
        world.expect_scheduled(world.pod(**soft))
    placed = [each["metadata"]["name"] for each in world.all_pods()]
    world.expect_skew(placed, groups, 1)
    # One zone being full does not matter.
    world.expect_all_scheduled(world.pods(5, **soft))


def test_minimum_of_domains_is_awaited(world):
    """With fewer domains than minDomains the global minimum counts as 0."""
    world.nodes("a1", zone="a")
    constraint = {
        "labels": {"app": "web"},
        "topologySpreadConstraints": [spread(minDomains=2)],
    }

    world.expect_scheduled(world.pod(**constraint), on="a1")
    second = world.pod(**constraint)
    world.expect_unschedulable(second, refused(1, SPREAD))
    world.nodes("b1", zone="b")
    world.expect_scheduled(second, on="b1")


@pytest.mark.parametrize(("policy", "fits"), [("Ignore", False), ("Honor", True)])
def test_tainted_domain_counts_by_policy(world, policy, fits):
    """An empty zone that nobody may enter holds the others back, unless taints are honored."""
    world.nodes("a1", zone="a")
    world.nodes("b1", zone="b", taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    constraint = {
        "labels": {"app": "web"},
        "topologySpreadConstraints": [spread(nodeTaintsPolicy=policy)],
    }

    world.expect_scheduled(world.pod(**constraint), on="a1")
    second = world.pod(**constraint)
    if fits:
        world.expect_scheduled(second, on="a1")
    else:
        world.expect_unschedulable(second, f"0/2 nodes are available: 1 {SPREAD}, 1 {TAINT}.")


def test_label_keys_separate_revisions(world):
    """With matchLabelKeys a rollout is spread by itself, whatever is left of the last one."""
    groups = zones(world)

    def revision(name):
        return world.pods(
            2,
            labels={"app": "web", "revision": name},
            topologySpreadConstraints=[spread(matchLabelKeys=["revision"])],
        )

    world.expect_skew(revision("1"), groups, 0)
    world.expect_skew(revision("2"), groups, 0)


def test_configured_defaults_apply_to_pods_of_a_service(world):
    """A profile's own default constraints hold for pods that bring none but have an owner."""
    world.nodes("a", "b")
    labels = {"app": "web"}
    world.create(
        "v1/services",
        {"metadata": {"name": "web"}, "spec": {"selector": labels, "ports": [{"port": 80}]}},
    )
    world.settle()

    pods = world.pods(4, labels=labels, scheduler="hard-by-default", cpu="100m")
    world.expect_skew(pods, {"a": "a", "b": "b"}, 0)
    # A label more does not make it another service's pod.
    world.change_node("b", unschedulable=True)
    fifth = world.pod(labels=labels, scheduler="hard-by-default", cpu="100m")
    world.expect_scheduled(fifth, on="a")
    sixth = world.pod(labels=labels, scheduler="hard-by-default", cpu="100m")
    world.expect_unschedulable(
        sixth, f"0/2 nodes are available: 1 {SPREAD}, 1 node(s) were unschedulable."
    )
    world.expect_scheduled(world.pod(scheduler="hard-by-default", cpu="100m"), on="a")


@pytest.mark.parametrize("owner", ["deployment", "service"])
def test_pods_that_belong_together_are_spread_by_default(world, owner):
    """The built-in soft constraints know a pod's service and its controller.

    The profile scores nothing else, and hosts tie without it: that all of several hosts and zones
    are used evenly is the constraints' doing.
    """
    groups = {f"{zone}{i}": zone for zone in "ab" for i in range(2)}
    for name, zone in groups.items():
        world.nodes(name, zone=zone, cpu="32")
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "schedulerName": "spread",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example"}],
        },
    }
    if owner == "deployment":
        spec = {"replicas": 8, "selector": {"matchLabels": labels}, "template": template}
        world.create("apps/v1/deployments", {"metadata": {"name": "web"}, "spec": spec})
        until(lambda: len(world.all_pods()) == 8)
        pods = [each["metadata"]["name"] for each in world.all_pods()]
    else:
        service = {"selector": labels, "ports": [{"port": 80}]}
        world.create("v1/services", {"metadata": {"name": "web"}, "spec": service})
        world.settle()
        pods = world.pods(8, labels=labels, scheduler="spread", cpu="100m")
    world.expect_skew(pods, {name: name for name in groups}, 0)
    world.expect_skew(pods, groups, 0)


# PrioritySort


def test_more_important_pods_go_first(world):
    """When room comes back, it goes to the most important of those who wait."""
    for name, value in (("low", 10), ("high", 1000)):
        world.plane.request(
            "POST",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "metadata": {"name": f"{world.namespace}-{name}"},
                "value": value,
                "preemptionPolicy": "Never",
            },
        )
    world.nodes("a", cpu="2")
    world.change_node("a", unschedulable=True)
    low = world.pods(2, priorityClassName=f"{world.namespace}-low")
    high = world.pods(2, priorityClassName=f"{world.namespace}-high")
    for pod in low + high:
        world.expect_unschedulable(pod, refused(1, "node(s) were unschedulable"))

    world.change_node("a", unschedulable=False)
    world.expect_all_scheduled(high)
    for pod in low:
        world.expect_unschedulable(pod, refused(1, "Insufficient cpu"))


# Profiles


def test_only_pods_of_our_profiles_are_touched(world):
    world.nodes("a")

    stranger = world.pod(scheduler="somebody-else")
    world.expect_scheduled(world.pod(), on="a")
    world.expect_scheduled(world.pod(scheduler="least"), on="a")
    assert not world.node_of(stranger)
    assert "conditions" not in world.read(stranger)["status"]


def test_events_come_from_the_profile(world):
    world.nodes("a")

    pod = world.pod(scheduler="least")
    world.expect_scheduled(pod)
    (event,) = until(lambda: world.events(pod, "Scheduled"))
    assert event["reportingController"] == "least"


def test_cluster_without_nodes_is_said_so(world):
    world.expect_unschedulable(world.pod(), "no nodes available to schedule pods")
