"""The interface to the API server for single requests, without watches.

``ApiClient`` satisfies it over HTTP; a simulated API satisfies it in memory.
"""

from collections.abc import Mapping
from typing import Final, Protocol

Params = Mapping[str, str]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


class Reads(Protocol):
    """The requests that change nothing."""

    async def get(self, path: str, params: Params | None = None) -> bytes:
        """Read what is at *path*."""
        ...


class Requests(Reads, Protocol):
    """One request each; a failure is an ``ApiError``, and repeating it is up to the caller."""

    async def post(self, path: str, body: bytes, params: Params | None = None) -> bytes:
        """Create what *body* says under *path*."""
        ...

    async def put(self, path: str, body: bytes, params: Params | None = None) -> bytes:
        """Replace what is at *path*."""
        ...

    async def patch(
        self, path: str, body: bytes, content_type: str, params: Params | None = None
    ) -> bytes:
        """Change what is at *path* by a patch of *content_type*."""
        ...

    async def delete(self, path: str, body: bytes = b"", params: Params | None = None) -> bytes:
        """Delete what is at *path*, under the options in *body*."""
        ...
