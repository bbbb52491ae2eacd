"""Effects: what has to be done for a plugin before the pod is bound, as data.

The binding cycle performs them. So plugins stay pure functions, which can be called again and
tested without a server, and requests, retries and timeouts are written once, in `binding`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler.model.fact import KubeObject, Resource
from scheduler.snapshot.node_table import NodeTable


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object through the API.

    Args:
        path: The API path of the object, as in
            ``/api/v1/namespaces/default/persistentvolumeclaims/data``.
        body: The patch, JSON-encodable; sent as a merge patch.
        undo: The patch that reverts it if the pod is not bound after all; None where nothing has
            to be reverted.
    """

    path: str
    body: dict[str, Any]
    undo: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Assume:
    """Assume that the API server has *item*, until a watch event brings any version of it.

    So the next pod is decided with what a patch of this pod is about to write. The assumption is
    reverted if the pod is not bound after all.

    Args:
        resource: What kind of object it is.
        item: The object as it will be, derived from the version in the cache.
    """

    resource: Resource
    item: KubeObject


Condition = Callable[[NodeTable], bool | str]
"""Returns whether the wait is over, or a text that says why it has failed."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Hold back the binding until *condition* is true.

    The condition is a pure function of the cluster's state; it is called at once and then whenever
    facts were applied. It may also return a text: then the wait has failed for that reason. If the
    pod is deleted, the wait ends without a call.
    """

    condition: Condition
    timeout_seconds: float
    what: str


@dataclass(frozen=True, slots=True)
class PostBinding:
    """Add annotations and labels to the pod in the same request that binds it."""

    annotations: dict[str, str]


Effect = Patch | WaitUntil | PostBinding
