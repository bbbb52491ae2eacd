"""All objects of a resource, listed once, without a watch."""

import asyncio
from collections.abc import AsyncIterator

from scheduler.kube.decode import ObjectDecoder, Unreadable
from scheduler.kube.reflector import PAGE_OBJECTS
from scheduler.kube.requests import Requests
from scheduler.kube.slices import Slices
from scheduler.kube.watched import T, Watched


async def list_all(requests: Requests, watched: Watched[T]) -> AsyncIterator[T | Unreadable]:
    """Yield every object, page by page, as of one moment.

    Raises:
        ApiError: If a page cannot be read.
    """
    decoder = ObjectDecoder(watched)
    params = {**watched.params, "limit": str(PAGE_OBJECTS)}
    slices = Slices()
    while True:
        page = decoder.page(await requests.get(watched.path, params))
        for raw in page.items or ():
            yield decoder.item(raw)
            if slices.is_full(len(raw)):
                await asyncio.sleep(0)
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_
