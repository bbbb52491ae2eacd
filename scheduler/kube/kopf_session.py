"""An HTTP session with our credentials for kopf, which sends its own requests."""

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from multidict import CIMultiDict

from scheduler.kube.connection_pool import KEEPALIVE_SECONDS
from scheduler.kube.credentials import Credentials


def kopf_session(credentials: Credentials) -> aiohttp.ClientSession:
    """Return a session that sends fresh credentials with every request; the caller closes it."""
    # TLS context and proxy stay those of this moment: after a 401 kopf logs in again and gets
    # another session. The token may rotate without a 401, so it is looked up for each request.
    access = credentials.access

    async def authorize(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        now = await credentials.fresh()
        if now.authorization:
            request.headers["Authorization"] = now.authorization
        request.server_hostname = now.server_hostname
        if now.proxy_headers is not None:
            request.proxy_headers = CIMultiDict(now.proxy_headers)
        return await handler(request)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls, keepalive_timeout=KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=access.proxy,
        middlewares=(authorize,),
    )
