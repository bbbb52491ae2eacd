"""The endpoint as the flags want it: where it listens, with which certificate, and who may ask."""

import ssl
from typing import TYPE_CHECKING

from scheduler.config.run_settings import RunSettings
from scheduler.observe.certificate import ServingCertificate, self_signed
from scheduler.observe.health import Endpoint, Judge, serve

if TYPE_CHECKING:
    from aiohttp import web


class Serving:
    """Serves an endpoint, or nothing where the flags want nothing served.

    Args:
        settings: What the flags say.
        endpoint: What can be asked for.
        judge: Is asked about everything but health, unless all may ask for all.
    """

    def __init__(self, settings: RunSettings, endpoint: Endpoint, judge: Judge) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._judge = judge
        self._certificate: ServingCertificate | None = None
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Begin to answer.

        Raises:
            ConfigurationError: If address or certificate cannot be used; it names the flag.
        """
        address, port = self._settings.bind_address, self._settings.port
        if not port:
            return
        if self._settings.insecure_metrics:
            self._runner = await serve(self._endpoint.application(), address, port)
        else:
            application = self._endpoint.application(self._judge)
            self._runner = await serve(application, address, port, self._tls_context())

    async def close(self) -> None:
        """Answer no more."""
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
