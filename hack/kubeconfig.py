"""Kubeconfig files: written for every user of a control plane, read by the tools beside it.

All data are embedded, so that a file can be copied anywhere and outlive the temporary directory.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hack.certificates import write_secret

if TYPE_CHECKING:
    from hack.certificates import KeyPair

Credentials = dict[str, str]


@dataclass(frozen=True)
class Access:
    """Where an API server is and how to be let in."""

    url: str
    context: ssl.SSLContext | None  # none for plain http
    headers: dict[str, str]


def certificate_credentials(pair: KeyPair) -> Credentials:
    """Log in by client certificate."""
    return {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }


def token_credentials(token: str) -> Credentials:
    """Log in by bearer token."""
    return {"token": token}


def write_kubeconfig(path: Path, url: str, authority: bytes, credentials: Credentials) -> Path:
    """Write a kubeconfig with one cluster, one user and one context; return its path."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "user", "user": credentials}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "user"}}],
        "current-context": "local",
    }
    write_secret(path, yaml.safe_dump(document).encode())
    return path


def read_kubeconfig(path: Path) -> Access:
    """Read a kubeconfig with embedded data: ours, kind's, or one made by ``view --flatten``."""
    document = yaml.safe_load(path.read_text())
    context = _named(document, "contexts", document["current-context"])["context"]
    cluster = _named(document, "clusters", context["cluster"])["cluster"]
    user = _named(document, "users", context["user"])["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        _load_pair(tls, user)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Access(cluster["server"], tls, headers)


def _named(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    return next(entry for entry in document[section] if entry["name"] == name)


def _load_pair(tls: ssl.SSLContext, user: dict[str, str]) -> None:
    # The ssl module reads client certificates from files only.
    with tempfile.TemporaryDirectory() as directory:
        pair = Path(directory) / "pair.pem"
        parts = [user["client-certificate-data"], user["client-key-data"]]
        write_secret(pair, b"".join(base64.b64decode(part) for part in parts))
        tls.load_cert_chain(pair)
