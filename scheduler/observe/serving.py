"""Opens the endpoint as the flags say: address, certificate, and authorization of requests."""

import ssl
from typing import TYPE_CHECKING

from scheduler.config.run_settings import RunSettings
from scheduler.observe.certificate import ServingCertificate, self_signed
from scheduler.observe.health import Endpoint, Judge, serve

if TYPE_CHECKING:
    from aiohttp import web


class Serving:
    """Serves an endpoint, or nothing if the flags say so.

    Args:
        settings: The settings of the command line.
        endpoint: What is served.
        judge: Authorizes requests that are not about health, unless --insecure-metrics is set.
    """

    def __init__(self, settings: RunSettings, endpoint: Endpoint, judge: Judge) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._judge = judge
        self._certificate: ServingCertificate | None = None
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Start to serve.

        Raises:
            ConfigurationError: If address or certificate cannot be used; it names the flag.
        """
        assert self._runner is None, "the endpoint is open already"
        address, port = self._settings.bind_address, self._settings.port
        if not port:
            return
        if self._settings.insecure_metrics:
            self._runner = await serve(self._endpoint.application(), address, port)
        else:
            application = self._endpoint.application(self._judge)
            self._runner = await serve(application, address, port, self._tls_context())

    async def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def keep_certificate_fresh(self) -> None:
        """Read the operator's certificate again whenever it changed, until cancelled."""
        if self._certificate is not None:
            await self._certificate.keep_fresh()

    def _tls_context(self) -> ssl.SSLContext:
        settings = self._settings
        if not settings.tls_cert_file:
            return self_signed()
        self._certificate = ServingCertificate(
            settings.tls_cert_file, settings.tls_private_key_file
        )
        return self._certificate.context
