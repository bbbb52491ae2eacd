"""Certificates and keys as PEM, for contexts of TLS."""

import os
import ssl
import tempfile
from typing import Final

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the file gets a random name and is ours alone


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load *certificate*, with those that signed it, and its *key* into *context*.

    Raises:
        OSError: If they cannot be used; ``ssl.SSLError`` is one.
    """
    # OpenSSL reads a pair from files only. This one is in memory where the system has such a
    # directory: the key stays off the disk, and the root file system may be read-only.
    folder = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".pem") as file:
        file.write(certificate + b"\n" + key + b"\n")
        file.flush()
        context.load_cert_chain(file.name)
