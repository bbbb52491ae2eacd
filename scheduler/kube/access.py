"""How a request reaches the API server: the address, our credentials, and trusted authorities."""

import math
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from yarl import URL

from scheduler.errors import ConfigurationError

# Kubelets rewrite tokens and certificates in place, and send no notice. The official client
# re-reads them after the same time.
REREAD_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server, and the credentials for it, at one moment.

    Args:
        server: ``https://host:port``, perhaps with a path, without a slash at the end.
        authorization: The value of the Authorization header; empty for none.
        tls: The trusted authorities and the client certificate; True, which aiohttp ignores, for
            plain HTTP.
        server_hostname: The name that the server's certificate must have, if that is not the host
            of *server*.
        proxy: The proxy, if one is used.
        proxy_headers: The credentials for that proxy.
        fresh_seconds: After this time the sources have to be read again.
    """

    server: str
    authorization: str = field(default="", repr=False)
    tls: ssl.SSLContext | bool = True
    server_hostname: str | None = None
    proxy: URL | None = None
    proxy_headers: Mapping[str, str] | None = field(default=None, repr=False)
    fresh_seconds: float = math.inf


Source = Callable[[bool], Access]
"""Reads files, may run an exec plugin, and blocks. Its argument is True after a 401: nothing that
was cached may be used again."""


def official_module(module: str) -> Any:
    """Import *module* of the official client: late, since it takes a third of a second."""
    return import_module(f"kubernetes.{module}")


def server_url(text: str, name: str) -> str:
    """Check an API server's address; a bare host means HTTPS."""
    server = text.rstrip("/")
    if server and "://" not in server:
        server = f"https://{server}"
    try:
        url = URL(server)
        good = url.scheme in {"http", "https"} and bool(url.host) and url.port is not None
    except ValueError:
        good = False
    if not good:
        raise ConfigurationError(
            f"{name}: {text!r} is not the address of an API server, such as https://10.0.0.1:6443"
        )
    return server


def bearer(token: str, name: str) -> str:
    """Return the value of the Authorization header for *token*.

    Raises:
        ConfigurationError: If no HTTP header can hold *token*.
    """
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(f"{name}: this is no token: it is not one line of plain text")
    return f"Bearer {token}"


def read_file(path: Path, name: str) -> str:
    """Read a small text file whose path the operator wrote as *name*."""
    try:
        text = path.expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{name}: {path} cannot be read: {problem}") from problem
    if not text:
        raise ConfigurationError(f"{name}: {path} is empty")
    return text
