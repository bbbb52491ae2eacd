"""Holds requests back in the last moment, where this process may not change anything any more.

Between a question and the sending of what was asked about lie a name to be looked up, a connection
to be opened and a handshake; a process may be paused there until its lease is another's.
"""

from collections.abc import Callable

import aiohttp
from aiohttp.connector import Connection

from scheduler.errors import Fenced


def _always() -> bool:
    return True


class Fence:
    """Stands before the wire.

    Args:
        may_write: Whether anything may be changed right now; can be replaced.
    """

    def __init__(self, may_write: Callable[[], bool] = _always) -> None:
        self.may_write = may_write

    def request_class(self) -> type[aiohttp.ClientRequest]:
        """Return requests that ask before they are sent, and raise Fenced where they may not be.

        aiohttp has a connection by then, and asks anew where it repeats a request.
        """
        fence = self

        class Request(aiohttp.ClientRequest):
            async def send(self, conn: Connection) -> aiohttp.ClientResponse:
                if self.method != "GET" and not fence.may_write():
                    target = f"{self.method} {self.url.raw_path_qs}"
                    raise Fenced(f"{target}: not sent, since this process leads no more")
                return await super().send(conn)

        return Request
