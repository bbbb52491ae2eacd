"""Effects: what a plugin wants done after the decision, as data. The loop performs them.

Plugins stay plain functions and can be asked again; the loop owns requests, retries and time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
class WaitUntil:
    """Hold the pod until *condition* is true.

    The condition is a pure question about what the loop knows; it is asked once at first and then
    whenever a fact arrives. It may also return a text: then the wait has failed for that reason.
    """

    condition: Callable[[], bool | str]
    timeout_seconds: float
    what: str


@dataclass(frozen=True, slots=True)
class PostBinding:
    """Add annotations and labels to the pod in the same request that binds it."""

    annotations: dict[str, str]


Effect = Patch | WaitUntil | PostBinding
