"""Stops a request right before it is sent, if this process may not write any more.

Between the decision to write and the first byte on the wire lie a name lookup, a new connection and
a handshake. A process may be paused there for so long that another holds its lease by then.
"""

from collections.abc import Callable

import aiohttp
from aiohttp.connector import Connection

from scheduler.errors import Fenced


def _always() -> bool:
    return True


class Fence:
    """Checks every request other than a GET before it is sent.

    Args:
        may_write: Returns whether this process may change anything right now; can be replaced.
    """

    def __init__(self, may_write: Callable[[], bool] = _always) -> None:
        self.may_write = may_write

    def request_class(self) -> type[aiohttp.ClientRequest]:
        """Return a class of requests that call *may_write* before they are sent, or raise Fenced.

        aiohttp has a connection by then, and sends a request that it repeats by the same method.
        """
        fence = self

        class Request(aiohttp.ClientRequest):
            async def send(self, conn: Connection) -> aiohttp.ClientResponse:
                if self.method != "GET" and not fence.may_write():
                    target = f"{self.method} {self.url.raw_path_qs}"
                    raise Fenced(f"{target}: not sent, since this process leads no more")
                return await super().send(conn)

        return Request
