"""Calls extenders over HTTP: one POST for each request, no retry; a failure is a value."""

import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from scheduler.config.document import Extender, TlsConfig
from scheduler.errors import ConfigurationError, Fenced
from scheduler.framework.extender_protocol import (
    ExtenderRequest,
    ExtenderResponse,
    NoResponse,
    ResponseBody,
)
from scheduler.kube.fence import Fence
from scheduler.pem import load_pair

ExtenderCall = Callable[[ExtenderRequest], Awaitable[ExtenderResponse]]
"""Calls an extender; returns the body of its response, or why there is none."""


class ExtenderClient:
    """Connections to the configured extenders.

    Raises:
        ConfigurationError: If a certificate, key or authority cannot be read.
    """

    def __init__(self, extenders: Iterable[Extender]) -> None:
        self._tls = {
            id(extender): _context(extender, f"extenders[{index}].tlsConfig")
            for index, extender in enumerate(extenders)
        }
        self._fence = Fence()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), request_class=self._fence.request_class()
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    def called_only_while(self, may_act: Callable[[], bool]) -> ExtenderCall:
        """Return `call`, which sends nothing from now on while *may_act* returns False.

        An extender may bind pods for us, so calls of extenders need the lease as our own writes do.
        """
        self._fence.may_write = may_act
        return self.call

    async def call(self, request: ExtenderRequest) -> ExtenderResponse:
        """Call one extender once."""
        extender = request.extender
        url = f"{extender.url_prefix.rstrip('/')}/{request.verb}"
        tls = extender.tls_config
        try:
            async with self._session.post(
                url,
                data=request.body,
                headers={"Content-Type": "application/json"},
                ssl=self._tls[id(extender)],
                server_hostname=(tls.server_name or None) if tls else None,
                timeout=aiohttp.ClientTimeout(total=extender.http_timeout_seconds),
            ) as response:
                body = await response.read()
        except Fenced as problem:
            return NoResponse(str(problem))
        except (aiohttp.ClientError, OSError) as problem:
            return NoResponse(f'extender "{url}" gave no answer: {_cause(problem)}')
        if response.status != 200:
            return NoResponse(
                f"failed {request.verb} with extender at URL {url}, code {response.status}"
            )
        return ResponseBody(body)


def _cause(problem: Exception) -> str:
    """Say what went wrong; some errors, a timeout among them, say nothing themselves."""
    return str(problem) or type(problem).__name__


def _context(extender: Extender, field: str) -> ssl.SSLContext | bool:
    """Return the TLS context for *extender*; True, which aiohttp ignores, for plain HTTP.

    As upstream, ``enableHTTPS`` without an authority means that the certificate is not verified.
    Without ``enableHTTPS``, an https URL is verified against the system's authorities unless
    ``insecure`` is set.
    """
    tls = extender.tls_config
    if tls is None and not extender.enable_https:
        return True
    tls = tls or TlsConfig()
    authority = bool(tls.ca_data or tls.ca_file)
    if tls.insecure and authority:
        raise ConfigurationError(
            f"{field}.insecure: contradicts caFile and caData: drop it or drop them"
        )
    for given, missing in (("cert", "key"), ("key", "cert")):
        if _has(tls, given) and not _has(tls, missing):
            raise ConfigurationError(
                f"{field}.{missing}File: must be given, or {missing}Data: "
                f"{given}File and {given}Data are of no use without it"
            )
    checked = not tls.insecure and (authority or not extender.enable_https)
    try:
        return _load(tls, checked=checked)
    except (OSError, ssl.SSLError, ValueError) as problem:
        raise ConfigurationError(f"{field}: cannot be used: {problem}") from problem


def _has(tls: TlsConfig, what: str) -> bool:
    return bool(getattr(tls, f"{what}_data") or getattr(tls, f"{what}_file"))


def _load(tls: TlsConfig, *, checked: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority = tls.ca_data.decode() or (Path(tls.ca_file).read_text() if tls.ca_file else "")
    if authority:
        context.load_verify_locations(cadata=authority)
    if not checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_data or tls.cert_file:
        load_pair(
            context,
            tls.cert_data or Path(tls.cert_file).read_bytes(),
            tls.key_data or Path(tls.key_file).read_bytes(),
        )
    return context
