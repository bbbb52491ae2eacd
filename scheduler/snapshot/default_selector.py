"""The default selector of a pod for spreading: that of its services and of its controller.

Source: ``plugins/helper/spread.go``.
"""

from scheduler.errors import MalformedObject
from scheduler.model.meta import LabelSelector
from scheduler.model.objects import ReplicationController
from scheduler.model.pod import Pod
from scheduler.model.selectors import NOTHING, Selector, compile_selector, from_map
from scheduler.snapshot.objects import ClusterObjects


def default_selector(pod: Pod, objects: ClusterObjects) -> Selector:
    """Merge the selectors of *pod*'s services and of its controller; empty if it has neither."""
    labels = _service_labels(pod, objects)
    controller = pod.metadata.controller
    if controller is None:
        return from_map(labels)
    owner = objects.owner(controller.api_version, controller.kind, pod.namespace, controller.name)
    if owner is None:
        return from_map(labels)
    if isinstance(owner, ReplicationController):
        return from_map(labels | (owner.spec.selector or {}))
    return from_map(labels).and_also(_readable(owner.spec.selector).requirements or ())


def _service_labels(pod: Pod, objects: ClusterObjects) -> dict[str, str]:
    """Merge the selectors of all services that select *pod*.

    An absent selector selects nothing: endpoints of such a service are written by hand.
    """
    labels: dict[str, str] = {}
    for service in objects.services(pod.namespace):
        selector = service.spec.selector
        if selector is not None and selector.items() <= pod.labels.items():
            labels |= selector
    return labels


def _readable(selector: LabelSelector | None) -> Selector:
    """Compile *selector*; an invalid one counts as absent: upstream ignores the error."""
    try:
        return compile_selector(selector, "spec.selector")
    except MalformedObject:
        return NOTHING
