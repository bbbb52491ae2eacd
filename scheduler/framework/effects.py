"""Effects: what a plugin wants done after the decision, as data. The loop performs them.

Plugins stay plain functions and can be asked again; the loop owns requests, retries and time.
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
        undo: The patch that takes it back when the pod is not bound after all; None where nothing
            needs undoing.
    """

    path: str
    body: dict[str, Any]
    undo: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Assume:
    """Take *item* for what the API server has, until it tells of any version of it.

    That is how the next pod sees at once what a patch of this pod is about to write. The assumption
    is taken back when the pod is not bound after all.

    Args:
        resource: What kind of object it is.
        item: The object as it is going to be, derived from the version that is known now.
    """

    resource: Resource
    item: KubeObject


Condition = Callable[[NodeTable], bool | str]
"""Whether it is so, or a text that says why it never will be."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Hold the pod until *condition* is true.

    The condition is a pure question about the cluster as it is known then; it is asked once at
    first and then whenever facts were applied. It may also return a text: then the wait has failed
    for that reason. Where the pod goes away the wait ends by itself.
    """

    condition: Condition
    timeout_seconds: float
    what: str


@dataclass(frozen=True, slots=True)
class PostBinding:
    """Add annotations and labels to the pod in the same request that binds it."""

    annotations: dict[str, str]


Effect = Patch | WaitUntil | PostBinding
