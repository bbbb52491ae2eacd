"""Reads the cluster's state from the API server, which also completes a new pod by a dry run."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.errors import ConfigurationError, Conflict, Forbidden, NotFound, Rejected
from scheduler.explain.cluster_state import ClusterState
from scheduler.kube.listing import list_all
from scheduler.kube.requests import Requests
from scheduler.kube.watched import Watched

# Unknown fields are ignored, as the API server does for kubectl without --validate: a manifest that
# it would store with a warning can be explained.
_DRY_RUN: Final = {"dryRun": "All", "fieldValidation": "Ignore"}
_SET_BY_SERVER: Final = frozenset({"managedFields", "creationTimestamp", "uid", "generation"})


async def read_cluster(requests: Requests, watched: Iterable[Watched[Any]]) -> ClusterState:
    """List all objects of *watched*.

    An optional resource is left out if the server does not have it or forbids to list it.

    Raises:
        ApiError: If anything else goes wrong.
    """
    state = ClusterState()
    for each in watched:
        try:
            async for item in list_all(requests, each):
                state.add(each.resource, item)
        except (Forbidden, NotFound):
            if not each.optional:
                raise
        else:
            state.seen.add(each.resource)
    return state


async def complete(
    requests: Requests, document: Mapping[str, Any], namespace: str
) -> tuple[dict[str, Any], list[str]]:
    """Return *document* as the API server would store it, and what it would fill in.

    Raises:
        ConfigurationError: If the API server would reject the pod.
    """
    metadata = document.get("metadata") or {}
    where = namespace or metadata.get("namespace") or "default"
    try:
        answer = await requests.post(
            f"/api/v1/namespaces/{where}/pods", msgspec.json.encode(document), _DRY_RUN
        )
    except Conflict as error:
        raise ConfigurationError(
            f"pod {where}/{metadata.get('name')} exists already; "
            f"ask about it by its name instead of -f"
        ) from error
    except (Rejected, Forbidden, NotFound) as error:
        raise ConfigurationError(f"the API server would reject the pod: {error}") from error
    completed: dict[str, Any] = msgspec.json.decode(answer)
    return completed, list(_added(document, completed))


def _added(given: Mapping[str, Any], completed: Mapping[str, Any]) -> Iterable[str]:
    """Yield the fields of metadata and spec that the API server filled in or changed."""
    for part in ("metadata", "spec"):
        before, after = given.get(part) or {}, completed.get(part) or {}
        for name, value in after.items():
            if name not in _SET_BY_SERVER and before.get(name) != value:
                short = value if isinstance(value, str | int | bool) else "…"
                yield f"{part}.{name}: {short}"
