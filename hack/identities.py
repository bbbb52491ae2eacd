"""Identities on a control plane: its servers, its administrator, and users made on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hack.certificates import Authority, signing_keys, write_secret
from hack.kubeconfig import (
    certificate_credentials,
    read_kubeconfig,
    token_credentials,
    write_kubeconfig,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hack.components import Files
    from hack.kubeconfig import Access, Credentials

_SERVERS: Final = ("etcd", "kube-apiserver", "loopback")


class Identities:
    """The certificate authority of one control plane, and the identities that it signs.

    Making one writes what the servers and the administrator need.

    Args:
        files: Where it is written.
        url: The address of the API server.
    """

    def __init__(self, files: Files, url: str) -> None:
        self._files = files
        self._url = url
        self._minted = 0
        self._authority = Authority()
        files.authority.write_bytes(self._authority.pem)
        for server in _SERVERS:
            self._authority.serving(server).write(files.directory, server)
        self._authority.client("etcd-client").write(files.directory, "etcd-client")
        private, public = signing_keys()
        write_secret(files.token_signing_key, private)
        files.token_checking_key.write_bytes(public)
        admin = self._authority.client("admin", ["system:masters"])
        self._write(files.admin, certificate_credentials(admin))
        self.admin: Access = read_kubeconfig(files.admin)

    def user(self, name: str, groups: Sequence[str]) -> Path:
        """Sign a client certificate for a user in ``groups``; return a kubeconfig with it."""
        return self._mint(name, certificate_credentials(self._authority.client(name, groups)))

    def bearer(self, name: str, token: str) -> Path:
        """Return a kubeconfig with a token that the API server gave out."""
        return self._mint(name, token_credentials(token))

    def _mint(self, name: str, credentials: Credentials) -> Path:
        # Users have names such as system:kube-scheduler; two of one name may differ in groups.
        self._minted += 1
        path = self._files.directory / f"{name.replace(':', '-')}-{self._minted}.kubeconfig"
        return self._write(path, credentials)

    def _write(self, path: Path, credentials: Credentials) -> Path:
        return write_kubeconfig(path, self._url, self._authority.pem, credentials)
