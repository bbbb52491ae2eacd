"""A small cluster as Kubernetes JSON, and calls of `py-scheduler explain` for a pod in it."""

import json

import yaml

from scheduler.explain.request import ExplainRequest, explain_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def node(name, cpu="4", taint="", **labels):
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name, cpu="1", at="", **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "py-scheduler",
            "nodeName": at,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        "status": {"phase": "Running" if at else "Pending"},
    }


def dump(*items):
    return ("dump", json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))


CLUSTER = (
    node("free"),
    node("full"),
    node("kept", cpu="1", taint="dedicated"),
    pod("busy", cpu="3", at="full"),
    pod("web", cpu="2"),
)


def explain_known(*items, name="web", **more):
    return explain_pod(ExplainRequest(name=name, snapshots=(dump(*(items or CLUSTER)),), **more))


def running(name, at, cpu="2", started="", labels=None, **spec):
    document = pod(name, cpu=cpu, at=at, **spec)
    document["metadata"]["labels"] = labels or {}
    if started:
        document["status"]["startTime"] = f"2026-01-01T{started}:00Z"
    return document


URGENT = pod("web", cpu="4", priority=100)
FULL = (running("a1", "a", cpu="3"), running("b1", "b", cpu="3", priority=200))


def new(**spec):
    document = pod("new", **spec)
    del document["metadata"]["uid"], document["metadata"]["namespace"], document["status"]
    return document


def explain_new(document, *items, **more):
    manifest = ("pod.yaml", yaml.safe_dump(document))
    return explain_pod(
        ExplainRequest(manifest=manifest, snapshots=(dump(*(items or CLUSTER)),), **more)
    )
