"""Pods of an owner of ours, and pods of other schedulers on the same nodes."""

from scheduler.testing import make_pod


def replica(name, cpu=1, owner="web", **more):
    reference = {"kind": "ReplicaSet", "name": owner, "uid": f"{owner}-uid", "controller": True}
    metadata = {"ownerReferences": [reference]}
    return make_pod(name, requests=f"{cpu} cpu", metadata=metadata, **more)


def theirs(name, cpu=2, **more):
    return make_pod(name, requests=f"{cpu} cpu", scheduler="default-scheduler", **more)
