"""All objects of a resource, listed once, without a watch."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from scheduler.kube.decode import ObjectDecoder, Unreadable
from scheduler.kube.reflector import PAGE_OBJECTS
from scheduler.kube.requests import Params, Requests
from scheduler.kube.slices import Slices
from scheduler.kube.watched import T, Watched

Get = Callable[[str, Params], Awaitable[bytes]]


async def list_pages(
    get: Get, watched: Watched[T], objects_maximum: int = PAGE_OBJECTS
) -> AsyncIterator[tuple[msgspec.Raw, ...]]:
    """Yield the objects as JSON, at most *objects_maximum* at once, as of one moment.

    Raises:
        Gone: If the API server does not know that moment any more, after about five minutes.
        ApiError: If a page cannot be read.
    """
    assert objects_maximum > 0, "a page of no objects is the whole list"
    decoder = ObjectDecoder(watched)
    # No resourceVersion: with 0 the server would answer from its cache, whole and at once, whatever
    # the limit.
    params = {**watched.params, "limit": str(objects_maximum)}
    while True:
        page = decoder.page(await get(watched.path, params))
        yield page.items or ()
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_


async def list_all(requests: Requests, watched: Watched[T]) -> AsyncIterator[T | Unreadable]:
    """Yield every object, as of one moment.

    Raises:
        ApiError: If a page cannot be read.
    """
    decoder = ObjectDecoder(watched)
    slices = Slices()
    async for page in list_pages(requests.get, watched):
        for raw in page:
            yield decoder.item(raw)
            if slices.is_full(len(raw)):
                await asyncio.sleep(0)
