"""The certificate of the HTTPS endpoint.

It is the operator's, read again when it is rotated; or a self-signed one, made at the start as in
kube-scheduler: scrapers must then skip its verification.
"""

import asyncio
import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.errors import ConfigurationError
from scheduler.observe import event_names
from scheduler.observe.logs import get_logger
from scheduler.pem import load_pair

REREAD_SECONDS: Final = 30.0
_VALID_FOR: Final = dt.timedelta(days=3650)

log = get_logger()


class ServingCertificate:
    """The files of certificate and key, and the TLS context that serves with them.

    Args:
        certificate: The path of the certificate and those that signed it, as PEM.
        key: The path of its private key, as PEM.

    Raises:
        ConfigurationError: If they cannot be used; it names the flags.
    """

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate = certificate
        self._key = key
        try:
            self._seen = self._state()
            self.context = self._load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"--tls-cert-file, --tls-private-key-file: {certificate} and {key}"
                f" cannot be used: {error}"
            ) from error

    async def keep_fresh(self, seconds: float = REREAD_SECONDS) -> None:
        """Read the files again whenever they changed, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            self.reread()

    def reread(self) -> bool:
        """Serve new connections with the files as they are now; return whether they changed."""
        try:
            state = self._state()
            if state == self._seen:
                return False
            # Half a rotation (a new certificate, the old key) must not get into the context that
            # serves: try the pair in another one first.
            self._load()
            self.context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            log.warning(event_names.CERTIFICATE_REFUSED, path=self._certificate, error=str(error))
            return False
        self._seen = state
        log.info(event_names.CERTIFICATE_RENEWED, path=self._certificate)
        return True

    def _state(self) -> tuple[tuple[int, int, int], ...]:
        # A secret is mounted through symbolic links: the inode changes even if the size does not.
        files = (Path(path).stat() for path in (self._certificate, self._key))
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in files)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate, self._key)
        return context


def self_signed() -> ssl.SSLContext:
    """Return a context with a self-signed certificate for the loopback addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "py-scheduler")])
    now = dt.datetime.now(dt.UTC)
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clocks of scrapers may be behind ours.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_pair(
        context,
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
    return context
