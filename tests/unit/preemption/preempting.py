"""Full nodes, pods without importance and pods of much, and what was done to make room."""

import copy

from scheduler.model.fact import Resource
from scheduler.testing import make_node, make_pod
from scheduler.testing.documents import pod_path
from scheduler.testing.simulated_api import Delay


def low(name, cpu=1, *, node="a", grace=0, **more):
    """A pod that runs already, of no importance."""
    return make_pod(
        name,
        requests=f"{cpu} cpu",
        node=node,
        termination_grace_period_seconds=grace,
        **more,
    )


def high(name="high", cpu=2, *, priority=100, **more):
    return make_pod(name, requests=f"{cpu} cpu", priority=priority, **more)


async def full_node(cluster, *pods, name="a", cpu=2):
    """Create a node and the *pods* that fill it, and let the scheduler hear of them."""
    cluster.create(make_node(name, allocatable=f"{cpu} cpu"), *pods)
    await cluster.settle()


def slow_deletion(cluster, name, seconds):
    cluster.api.plan("DELETE", f"/pods/{name}$", Delay(seconds))


def bind_elsewhere(api, path):
    """Let another scheduler bind the pod at *path* to node b."""
    api.change(path, lambda d: d["spec"].update(nodeName="b"))


def deleted(cluster):
    """Return the names of the pods whose deletion was asked for, in order."""
    return [each.path.rpartition("/")[2] for each in cluster.api.requests_to("DELETE")]


def is_there(cluster, pod):
    return pod_path(pod) in cluster.api.documents


def target_condition(cluster, pod):
    """Return status, reason and message of what a victim is told; empty where it is not told."""
    return cluster.condition(pod, "DisruptionTarget")


def take_over(cluster, api):
    """Put into *cluster* the pods and nodes that *api* held when the process before it ended."""
    for document in api.documents.values():
        resource = Resource.POD if "containers" in document["spec"] else Resource.NODE
        cluster.api.create(copy.deepcopy(document), resource)


def state_of(cluster, pod):
    """Return how far the preemption for *pod* is; None where there is none."""
    return next((each.state for each in cluster.core.preemptions if each.pod.uid == pod.uid), None)
