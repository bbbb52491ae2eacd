"""Completes a new pod as the API server would before a scheduler sees it.

On a cluster the API server does it itself, by a dry run. For a dump these rules replace it:

====================  ===========================================================================
rule                  what it fills in
====================  ===========================================================================
namespace             ``default``, unless another is given
scheduler name        ``default-scheduler``
priority              from ``priorityClassName``, else from the class that is the global default,
                      else 0; the class's ``preemptionPolicy`` with it
tolerations           300 s for not-ready and unreachable nodes (DefaultTolerationSeconds)
requests              a limit without a request is a request
host ports            with ``hostNetwork``, every container port is one
====================  ===========================================================================

Not imitated: LimitRange, RuntimeClass overhead, mutating webhooks and policies.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scheduler.errors import ConfigurationError
from scheduler.model.objects import PriorityClass
from scheduler.model.pod_spec import DEFAULT_SCHEDULER

NOT_IMITATED: Final = (
    "not imitated: LimitRange, RuntimeClass overhead, mutating webhooks and policies"
)
_SYSTEM_CLASSES: Final = {
    "system-cluster-critical": PriorityClass(value=2_000_000_000),
    "system-node-critical": PriorityClass(value=2_000_001_000),
}
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

Manifest = dict[str, Any]
"""A Kubernetes object, or a part of it, as it is written."""
Note = Callable[[str], None]


def complete(
    document: Mapping[str, Any], namespace: str, classes: Mapping[str, PriorityClass]
) -> tuple[Manifest, list[str]]:
    """Return *document* as the rules complete it, and one line for each field that was filled in.

    Raises:
        ConfigurationError: If the pod names a priority class that is not in *classes*.
    """
    pod: Manifest = copy.deepcopy(dict(document))
    done: list[str] = []
    metadata, spec = _part(pod, "metadata"), _part(pod, "spec")
    _name(metadata, namespace, done.append)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = DEFAULT_SCHEDULER
        done.append(f"spec.schedulerName: {DEFAULT_SCHEDULER}")
    _prioritize(spec, classes, done.append)
    _tolerate(spec, done.append)
    for field, container in _containers(spec):
        _request(container, field, done.append)
        if spec.get("hostNetwork"):
            _open_ports(container, field, done.append)
    return pod, done


def _part(document: Manifest, name: str) -> Manifest:
    part = document.setdefault(name, {})
    if not isinstance(part, dict):
        raise ConfigurationError(f"the pod's {name}: must be a map")
    return part


def _name(metadata: Manifest, namespace: str, note: Note) -> None:
    if not metadata.get("name"):
        metadata["name"] = f"{metadata.get('generateName') or 'pod-'}00000"
        note(f"metadata.name: {metadata['name']}")
    if not metadata.get("namespace"):
        metadata["namespace"] = namespace or "default"
        note(f"metadata.namespace: {metadata['namespace']}")
    if not metadata.get("uid"):
        # The real UID will be random. Ties are broken by it: a fixed UID gives the same explanation
        # each time.
        metadata["uid"] = f"{metadata['namespace']}/{metadata['name']}"


def _prioritize(spec: Manifest, classes: Mapping[str, PriorityClass], note: Note) -> None:
    name = spec.get("priorityClassName") or ""
    if name:
        found = classes.get(name) or _SYSTEM_CLASSES.get(name)
        if found is None:
            raise ConfigurationError(
                f"spec.priorityClassName: there is no PriorityClass {name} in the snapshot; "
                f"add it with `kubectl get priorityclasses -o json`"
            )
        why = f"PriorityClass {name}"
    else:
        found = max(
            (each for each in classes.values() if each.global_default),
            key=lambda each: -each.value,
            default=None,
        )
        why = f"PriorityClass {found.metadata.name}, the default" if found else "no PriorityClass"
    if spec.get("priority") is None:
        spec["priority"] = found.value if found else 0
        note(f"spec.priority: {spec['priority']} ({why})")
    if spec.get("preemptionPolicy") is None and found and found.preemption_policy:
        spec["preemptionPolicy"] = found.preemption_policy
        note(f"spec.preemptionPolicy: {found.preemption_policy} ({why})")


def _tolerate(spec: Manifest, note: Note) -> None:
    tolerations = spec["tolerations"] = list(spec.get("tolerations") or [])
    for key in _TOLERATED:
        if any(_covers(each, key) for each in tolerations):
            continue
        tolerations.append(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        )
        note(f"spec.tolerations: {key}:NoExecute for 300s")


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    """Tell whether *toleration* keeps the admission plugin from adding one for *key*."""
    return (toleration.get("key") or key) == key and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"


def _containers(spec: Manifest) -> Iterator[tuple[str, Manifest]]:
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            if isinstance(container, dict):
                yield f"spec.{part}[{index}]", container


def _request(container: Manifest, field: str, note: Note) -> None:
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    filled = {
        name: limit
        for name, limit in (resources.get("limits") or {}).items()
        if name not in requests
    }
    if filled:
        container["resources"] = {**resources, "requests": {**requests, **filled}}
        for name, limit in filled.items():
            note(f"{field}.resources.requests[{name}]: {limit} (its limit)")


def _open_ports(container: Manifest, field: str, note: Note) -> None:
    for index, port in enumerate(container.get("ports") or []):
        if isinstance(port, dict) and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
            note(f"{field}.ports[{index}].hostPort: {port['hostPort']} (hostNetwork)")
