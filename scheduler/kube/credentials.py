"""Finds the address of the API server and our credentials there.

The official client finds and merges kubeconfig files, runs exec plugins and knows the service
account of a pod. What it drops on the way is read here from the same files: tls-server-name, a
proxy for each cluster, paths relative to the file they stand in, and the reason why a plugin
failed.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from scheduler.errors import ConfigurationError
from scheduler.kube.access import (
    REREAD_SECONDS,
    Access,
    Source,
    bearer,
    official_module,
    read_file,
    server_url,
)
from scheduler.kube.kubeconfig import KubeconfigSource
from scheduler.kube.proxies import environment_proxy, with_proxy
from scheduler.kube.tls import Tls, TlsCache

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG: Final = Path("~/.kube/config")


class Credentials:
    """The current access; it is read again when it is old, or when the server answered 401.

    Threads, and their event loops, may share it.

    Args:
        source: Reads an access; called once here, and each time it has to be read again.
        clock: A monotonic clock in seconds.

    Raises:
        ConfigurationError: If the source cannot give a first access.
    """

    def __init__(self, source: Source, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._access = source(False)
        self._stale_at = clock() + self._access.fresh_seconds

    @property
    def access(self) -> Access:
        """What was read last, fresh or not."""
        return self._access

    async def fresh(self) -> Access:
        """Return an access that is not known to be old."""
        if self._clock() >= self._stale_at:
            await asyncio.to_thread(self._reload_if_old)
        return self._access

    async def reload(self, refused: Access | None = None) -> Access:
        """Read the sources again, unless *refused* was replaced in the meantime.

        Raises:
            ConfigurationError: If they cannot be read.
        """
        return await asyncio.to_thread(self._reload, refused)

    def _reload(self, refused: Access | None) -> Access:
        # A hundred requests may get a 401 at once; the first of them renews for all.
        with self._lock:
            if refused is None or refused is self._access:
                self._store(self._source(True))
            return self._access

    def _reload_if_old(self) -> None:
        with self._lock:
            if self._clock() < self._stale_at:
                return
            try:
                self._store(self._source(False))
            except ConfigurationError:
                # A file may be missing for the moment of its replacement. The old credentials stay
                # in use until the server answers 401.
                self._stale_at = self._clock() + REREAD_SECONDS

    def _store(self, access: Access) -> None:
        self._access = access
        self._stale_at = self._clock() + access.fresh_seconds


async def load_credentials(
    kubeconfig: str | None = None,
    *,
    context: str | None = None,
    master: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Find credentials where the operator or the cluster put them.

    The first of these that exists is used: *kubeconfig*, the files named by ``KUBECONFIG``, the
    service account of the pod we run in, ``~/.kube/config``. *master* replaces the server's
    address, and alone means that server without credentials.

    Raises:
        ConfigurationError: If nothing was found, or if what was found cannot be used.
    """
    source = _find(kubeconfig, context, service_account, master)
    return await asyncio.to_thread(Credentials, _via_environment(source, master))


def _find(
    kubeconfig: str | None, context: str | None, service_account: Path, master: str | None
) -> Source:
    """Return the first source that exists."""
    if kubeconfig:
        if not Path(kubeconfig).expanduser().is_file():
            raise ConfigurationError(
                f"--kubeconfig: {kubeconfig}: no such file; name a file that exists, "
                "or leave the option out to use KUBECONFIG or the pod's service account"
            )
        return KubeconfigSource(kubeconfig, context)
    if paths := os.environ.get("KUBECONFIG"):
        return KubeconfigSource(paths, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").is_file():
        return ServiceAccountSource(service_account)
    if DEFAULT_KUBECONFIG.expanduser().is_file():
        return KubeconfigSource(str(DEFAULT_KUBECONFIG), context)
    if master:
        return lambda _refused: Access(server=master)
    raise ConfigurationError(
        "kubeconfig: no credentials found: neither --kubeconfig nor KUBECONFIG is set, there is "
        f"no service account at {service_account}, and {DEFAULT_KUBECONFIG} does not exist; name a "
        "file with --kubeconfig, or run in a pod with automountServiceAccountToken"
    )


def _via_environment(source: Source, master: str | None) -> Source:
    """Let *master* and the proxy variables complete what *source* gives."""

    def complete(refused: bool) -> Access:
        access = source(refused)
        if master:
            access = replace(access, server=server_url(master, "--master"))
        if access.proxy is None and (proxy := environment_proxy(access.server)):
            access = with_proxy(access, proxy, "HTTPS_PROXY")
        return access

    return complete


class ServiceAccountSource:
    """The service account that a kubelet mounts into a pod; each call reads the rotated token."""

    def __init__(self, folder: Path = SERVICE_ACCOUNT) -> None:
        self._folder = folder
        self._tls = TlsCache()

    def __call__(self, refused: bool) -> Access:  # noqa: ARG002 - reading again is all there is to do
        """Read what the kubelet mounted."""
        loaders = official_module("config.incluster_config")
        found = official_module("client").Configuration()
        token, authorities = self._folder / "token", self._folder / "ca.crt"
        try:
            loaders.InClusterConfigLoader(token, authorities).load_and_set(found)
        except (loaders.ConfigException, OSError) as problem:
            raise ConfigurationError(
                f"service account: {self._folder}: {problem} "
                "Check the pod's automountServiceAccountToken, or name a file with --kubeconfig"
            ) from problem
        return Access(
            server=found.host,
            authorization=bearer(read_file(token, "service account"), f"service account: {token}"),
            tls=self._tls.context(
                Tls(
                    read_file(authorities, "service account"),
                    authorities_at=f"service account: {authorities}",
                )
            ),
            fresh_seconds=REREAD_SECONDS,
        )


def own_namespace() -> str:
    """Return the namespace we run in, else ``kube-system``."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or "kube-system"
    except OSError:
        return "kube-system"
