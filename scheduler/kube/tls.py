"""TLS contexts from parts of a kubeconfig, made once for each set of parts."""

import ssl
from dataclasses import dataclass, field

from scheduler.errors import ConfigurationError
from scheduler.pem import load_pair


@dataclass(frozen=True, slots=True)
class Tls:
    """What a TLS context is made of, and where it was written, for messages.

    Equal parts share one context, so that connections stay pooled.
    """

    authorities: str = ""
    certificate: str = ""
    key: str = ""
    verify: bool = True
    authorities_at: str = field(default="", compare=False)
    certificate_at: str = field(default="", compare=False)


class TlsCache:
    """Makes a new TLS context only when its parts changed."""

    def __init__(self) -> None:
        self._parts: Tls | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, parts: Tls) -> ssl.SSLContext:
        """Return a context for *parts*; the last one again where they did not change."""
        if self._context is None or parts != self._parts:
            self._parts, self._context = parts, context_of(parts)
        return self._context


def context_of(parts: Tls) -> ssl.SSLContext:
    """Make a context of *parts*.

    Raises:
        ConfigurationError: If certificates or key cannot be used.
    """
    try:
        context = ssl.create_default_context(cadata=parts.authorities or None)
    except ssl.SSLError as problem:
        raise ConfigurationError(
            f"{parts.authorities_at}: not PEM certificates: {problem}"
        ) from problem
    context.set_alpn_protocols(["http/1.1"])
    # Clusters have authorities that lack what RFC 5280 asks for; Go accepts them, and Python did
    # before 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not parts.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if parts.certificate:
        try:
            load_pair(context, parts.certificate.encode(), parts.key.encode())
        except OSError as problem:  # ssl.SSLError is one of them
            raise ConfigurationError(
                f"{parts.certificate_at}: not a certificate with its key: {problem}"
            ) from problem
    return context
