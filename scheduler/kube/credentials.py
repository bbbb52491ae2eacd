"""Where the API server is and who we are there.

The official client finds and merges kubeconfig files, runs exec plugins and knows the service
account of a pod. What it drops on the way is read here from the same files: tls-server-name, a
proxy for each cluster, paths relative to the file they stand in, and the reason why a plugin
failed.
"""

import asyncio
import base64
import binascii
import ipaddress
import math
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.request import getproxies_environment

import yaml
from yarl import URL

from scheduler.errors import ConfigurationError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG: Final = Path("~/.kube/config")

# Kubelets rewrite tokens and certificates in place; the official client re-reads them at this pace,
# too.
REREAD_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server, and what to show it there, at one moment.

    Args:
        server: ``https://host:port``, perhaps with a path, without a slash at the end.
        authorization: The value of the Authorization header; empty for none.
        tls: Whom to trust and which client certificate to show; True for plain HTTP, where it means
            nothing.
        server_hostname: The name that the server's certificate must bear, where it is not the
            host's.
        proxy: The proxy to ask for a tunnel.
        proxy_headers: What to show that proxy.
        fresh_seconds: After this time the sources want to be read again.
    """

    server: str
    authorization: str = field(default="", repr=False)
    tls: ssl.SSLContext | bool = True
    server_hostname: str | None = None
    proxy: URL | None = None
    proxy_headers: Mapping[str, str] | None = field(default=None, repr=False)
    fresh_seconds: float = math.inf


Source = Callable[[bool], Access]
"""Reads files, may run a plugin, and blocks meanwhile; told whether its last answer was refused."""


class Credentials:
    """The current access, renewed when it grows old or is refused.

    Threads, and their event loops, may share it.

    Args:
        source: Gives an access, now and whenever it is asked again.
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
            await asyncio.to_thread(self._freshen)
        return self._access

    async def reload(self, refused: Access | None = None) -> Access:
        """Read the sources again, unless *refused* was replaced in the meantime.

        Raises:
            ConfigurationError: If they cannot be read.
        """
        return await asyncio.to_thread(self._reload, refused)

    def _reload(self, refused: Access | None) -> Access:
        # A hundred requests may be refused at once; the first of them renews for all.
        with self._lock:
            if refused is None or refused is self._access:
                self._take(self._source(True))
            return self._access

    def _freshen(self) -> None:
        with self._lock:
            if self._clock() < self._stale_at:
                return
            try:
                self._take(self._source(False))
            except ConfigurationError:
                # A file may be missing for the moment of its replacement. What we hold is shown
                # until it is refused.
                self._stale_at = self._clock() + REREAD_SECONDS

    def _take(self, access: Access) -> None:
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

    The first of these that exists counts: *kubeconfig*, the files named by ``KUBECONFIG``, the
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
            access = replace(access, server=_server(master, "--master"))
        if access.proxy is None and (proxy := _environment_proxy(access.server)):
            access = with_proxy(access, proxy, "HTTPS_PROXY")
        return access

    return complete


class ServiceAccountSource:
    """The service account that a kubelet mounts into its pods; it is read anew as it rotates."""

    def __init__(self, folder: Path = SERVICE_ACCOUNT) -> None:
        self._folder = folder
        self._tls = _TlsCache()

    def __call__(self, refused: bool) -> Access:  # noqa: ARG002 - reading again is all there is to do
        """Read what the kubelet mounted."""
        loaders = _official("config.incluster_config")
        found = _official("client").Configuration()
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
            authorization=_bearer(_read(token, "service account"), f"service account: {token}"),
            tls=self._tls.context(
                _Tls(
                    _read(authorities, "service account"),
                    authorities_at=f"service account: {authorities}",
                )
            ),
            fresh_seconds=REREAD_SECONDS,
        )


class KubeconfigSource:
    """One or more kubeconfig files, merged as kubectl does: who says something first is heard.

    Args:
        paths: Files, separated as in PATH.
        context: The context to use, if not the current one.
    """

    def __init__(self, paths: str, context: str | None = None) -> None:
        self._paths = paths
        self._context = context
        self._tls = _TlsCache()
        self._plugin = _Plugin()
        self._read: tuple[_Entry, _Entry] | None = None

    def __call__(self, refused: bool) -> Access:
        """Read the files; ask the exec plugin where its last answer has expired or was refused.

        The kubeconfig itself is read again only after a refusal: it seldom changes, and parsing
        YAML would slow down everything else. The tokens and certificates that it names are read
        each time.
        """
        if self._read is None or refused:
            self._read = _entries(self._paths, self._context)
        cluster, user = self._read
        server = _server(cluster.text("server"), cluster.at("server"))
        shown = self._identity(cluster, user, refused)
        access = Access(
            server=server,
            authorization=shown.authorization,
            tls=self._tls.context(_tls(cluster, user, shown))
            if server.startswith("https")
            else True,
            server_hostname=cluster.text("tls-server-name") or None,
            fresh_seconds=min(REREAD_SECONDS, shown.fresh_seconds),
        )
        proxy = cluster.text("proxy-url")
        return with_proxy(access, proxy, cluster.at("proxy-url")) if proxy else access

    def _identity(self, cluster: "_Entry", user: "_Entry", refused: bool) -> "_Identity":
        """Return what *user* shows the server; the order of precedence is client-go's."""
        certificate = _Identity(
            certificate=user.content("client-certificate"), key=user.content("client-key")
        )
        if path := user.text("tokenFile"):
            token = _read(user.beside(path), user.at("tokenFile"))
            return replace(certificate, authorization=_bearer(token, user.at("tokenFile")))
        if token := user.text("token").strip():
            return replace(certificate, authorization=_bearer(token, user.at("token")))
        if "exec" in user.values:
            return self._plugin.ask(cluster, user, refused).over(certificate)
        if "auth-provider" in user.values:
            return _from_auth_provider(self._paths, self._context, user)
        if name := user.text("username"):
            secret = base64.b64encode(f"{name}:{user.text('password')}".encode()).decode()
            return replace(certificate, authorization=f"Basic {secret}")
        return certificate


@dataclass(frozen=True, slots=True)
class _Identity:
    """What a user shows: a header, a certificate with its key, or both."""

    authorization: str = ""
    certificate: str = ""
    key: str = ""
    fresh_seconds: float = math.inf

    def over(self, other: "_Identity") -> "_Identity":
        """Return this identity, with *other*'s certificate where this one has none."""
        if self.certificate:
            return self
        return replace(self, certificate=other.certificate, key=other.key)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A cluster or user of a kubeconfig, with the file it stands in.

    Args:
        file: That file.
        name: What the entry is called in messages, as in ``clusters[prod].cluster``.
        values: Its fields.
    """

    file: Path
    name: str
    values: Mapping[str, Any]

    def at(self, key: str) -> str:
        """Return where *key* stands, for messages."""
        return f"{self.file}: {self.name}.{key}"

    def text(self, key: str) -> str:
        """Return a text field, empty where it is absent."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(f"{self.at(key)}: must be text, not {type(value).__name__}")
        return value or ""

    def beside(self, path: str) -> Path:
        """Return *path*, relative to the file it was written in."""
        return self.file.parent / path

    def content(self, key: str) -> str:
        """Return PEM text from ``<key>-data``, or else from the file that *key* names."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as problem:
                raise ConfigurationError(
                    f"{self.at(key)}-data: not base64 of PEM text ({problem}); "
                    f"`kubectl config set` with --embed-certs writes it correctly"
                ) from problem
        path = self.text(key)
        return _read(self.beside(path), self.at(key)) if path else ""


def _official(module: str) -> Any:
    """Import *module* of the official client: late, since it takes a third of a second."""
    return import_module(f"kubernetes.{module}")


def _entries(paths: str, context: str | None) -> tuple[_Entry, _Entry]:
    """Return cluster and user of the context in use."""
    official = _official("config.kube_config")
    merged = _merged(paths)
    try:
        loader = official.KubeConfigLoader(
            config_dict=merged, active_context=context, config_base_path=None
        )
    except official.ConfigException as problem:
        raise ConfigurationError(
            f"{paths}: {problem}; `kubectl config get-contexts` lists what there is"
        ) from problem
    except (KeyError, TypeError, AttributeError) as problem:
        raise ConfigurationError(f"{paths}: not a kubeconfig: {problem!r}") from problem
    place: Mapping[str, str] = loader.current_context["context"]
    user = loader._user  # noqa: SLF001 - the loader resolves it and offers no other way to it
    if user is None and place.get("user"):
        raise ConfigurationError(
            f"{paths}: users: the context in use names user {place['user']!r}, who is not there"
        )
    return (
        _entry(loader._cluster, f"clusters[{place['cluster']}].cluster", paths),  # noqa: SLF001 - as above
        _entry(user, f"users[{place.get('user', '')}].user", paths),
    )


def _entry(node: Any, name: str, paths: str) -> _Entry:
    """Free an entry from the loader's node; a context without user is an empty one."""
    if node is None:
        return _Entry(Path(paths), name, {})
    return _Entry(Path(node.path), name, node.value or {})


def _merged(paths: str) -> Any:
    """Merge the files in *paths*; those that do not exist are passed over, as kubectl does."""
    official = _official("config.kube_config")
    try:
        merger = official.KubeConfigMerger(paths)
    except (official.ConfigException, OSError) as problem:
        raise ConfigurationError(f"{paths}: {problem}") from problem
    except yaml.YAMLError as problem:
        text = " ".join(str(problem).split())
        raise ConfigurationError(f"{paths}: not YAML: {text}") from problem
    except (KeyError, TypeError, AttributeError) as problem:
        raise ConfigurationError(f"{paths}: not a kubeconfig: {problem!r}") from problem
    if merger.config is None:
        raise ConfigurationError(
            f"KUBECONFIG: none of the files in {paths!r} exists; correct the variable or unset it"
        )
    # The merger lets the last file choose the current context; kubectl lets the first.
    chosen = (file.get("current-context") for file in merger.config_files.values())
    merger.config.value["current-context"] = next(filter(None, chosen), None)
    return merger.config


class _Plugin:
    """Remembers what an exec plugin said for as long as it is good."""

    def __init__(self) -> None:
        self._said: _Identity | None = None
        self._expires_at = math.inf

    def ask(self, cluster: _Entry, user: _Entry, refused: bool) -> _Identity:
        """Return what the plugin said, or says now if that has expired or was *refused*."""
        if self._said is None or refused or time.time() >= self._expires_at:
            status = _run_plugin(cluster, user)
            token = str(status.get("token") or "").strip()
            self._said = _Identity(
                authorization=_bearer(token, user.at("exec")) if token else "",
                certificate=status.get("clientCertificateData", ""),
                key=status.get("clientKeyData", ""),
            )
            self._expires_at = _expiry(status.get("expirationTimestamp"), user)
        return replace(self._said, fresh_seconds=max(1.0, self._expires_at - time.time()))


def _run_plugin(cluster: _Entry, user: _Entry) -> Mapping[str, Any]:
    official = _official("config.kube_config")
    call = user.values["exec"]
    try:
        status: Mapping[str, Any] = official.ExecProvider(
            official.ConfigNode(user.at("exec"), call),
            str(user.file.parent),
            official.ConfigNode(cluster.name, dict(cluster.values)),
        ).run()
    except (official.ConfigException, OSError, KeyError, TypeError) as problem:
        hint = call.get("installHint") if isinstance(call, dict) else None
        raise ConfigurationError(
            f"{user.at('exec')}: the plugin failed: {' '.join(str(problem).split())}"
            + (f"; {' '.join(str(hint).split())}" if hint else "; run it by hand to see why")
        ) from problem
    if not (status.get("token") or status.get("clientCertificateData")):
        raise ConfigurationError(
            f"{user.at('exec')}: the plugin answered without token and clientCertificateData"
        )
    return status


def _expiry(stamp: str | None, user: _Entry) -> float:
    """Return when to ask the plugin again, in wall time: a little before *stamp*."""
    if not stamp:
        return math.inf
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError as problem:
        raise ConfigurationError(
            f"{user.at('exec')}: the plugin's expirationTimestamp {stamp!r} is no RFC 3339 time"
        ) from problem
    left = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - time.time()
    return time.time() + left - min(60.0, left / 10)


def _from_auth_provider(paths: str, context: str | None, user: _Entry) -> _Identity:
    """Let the official client speak for the providers that Kubernetes removed: gcp and oidc."""
    official = _official("config.kube_config")
    found = official.Configuration()
    try:
        official.KubeConfigLoader(
            config_dict=_merged(paths), active_context=context, config_base_path=None
        ).load_and_set(found)
    except Exception as problem:
        raise ConfigurationError(
            f"{user.at('auth-provider')}: failed: {problem}; use an exec plugin instead"
        ) from problem
    if not (token := found.api_key.get("BearerToken")):
        raise ConfigurationError(
            f"{user.at('auth-provider')}: gave no token; use an exec plugin instead"
        )
    return _Identity(authorization=token)


@dataclass(frozen=True, slots=True)
class _Tls:
    """What a TLS context is made of, and where it was written, for messages.

    Equal parts share one context, so that connections stay pooled.
    """

    authorities: str = ""
    certificate: str = ""
    key: str = ""
    verify: bool = True
    authorities_at: str = field(default="", compare=False)
    certificate_at: str = field(default="", compare=False)


def _tls(cluster: _Entry, user: _Entry, shown: _Identity) -> _Tls:
    skip = cluster.values.get("insecure-skip-tls-verify", False)
    if not isinstance(skip, bool):
        raise ConfigurationError(
            f"{cluster.at('insecure-skip-tls-verify')}: must be true or false, not {skip!r}"
        )
    return _Tls(
        authorities=cluster.content("certificate-authority"),
        certificate=shown.certificate,
        key=shown.key,
        verify=not skip,
        authorities_at=cluster.at("certificate-authority"),
        certificate_at=user.at("exec" if "exec" in user.values else "client-certificate"),
    )


class _TlsCache:
    """Makes a new TLS context only when its parts changed."""

    def __init__(self) -> None:
        self._parts: _Tls | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, parts: _Tls) -> ssl.SSLContext:
        if self._context is None or parts != self._parts:
            self._parts, self._context = parts, _context(parts)
        return self._context


def _context(parts: _Tls) -> ssl.SSLContext:
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
        _show(context, parts)
    return context


def _show(context: ssl.SSLContext, parts: _Tls) -> None:
    """Load the client certificate, by way of a passing file: OpenSSL reads nothing else."""
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{parts.certificate}\n{parts.key}\n")
            file.flush()
            context.load_cert_chain(file.name)
    except OSError as problem:  # ssl.SSLError is one of them
        raise ConfigurationError(
            f"{parts.certificate_at}: not a certificate with its key: {problem}"
        ) from problem


def with_proxy(access: Access, proxy: str, name: str) -> Access:
    """Return *access* by way of *proxy*, which the operator wrote as *name*.

    Raises:
        ConfigurationError: If the proxy is of a kind that cannot be used.
    """
    url = URL(proxy if "://" in proxy else f"http://{proxy}")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigurationError(f"{name}: {proxy!r} is not the URL of an http or https proxy")
    if not url.user:
        return replace(access, proxy=url)
    secret = base64.b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
    return replace(
        access,
        proxy=url.with_user(None),
        proxy_headers={"Proxy-Authorization": f"Basic {secret}"},
    )


def _environment_proxy(server: str) -> str:
    """Return the proxy that the environment wants for *server*, empty where it wants none."""
    url, proxies = URL(server), getproxies_environment()
    proxy = proxies.get(url.scheme, "")
    direct = spared(url.host or "", url.port or 443, proxies.get("no", ""))
    return "" if direct else proxy


def spared(host: str, port: int, no_proxy: str) -> bool:
    """Tell whether NO_PROXY excuses *host*, as Go reads it: names, addresses, networks, ports."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(
        _spares(entry.strip().lower(), host.lower().rstrip("."), address, port)
        for entry in no_proxy.split(",")
        if entry.strip()
    )


def _spares(
    entry: str,
    host: str,
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None,
    port: int,
) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _in_network(address, entry)
    name, _, wanted = entry.rpartition(":")
    if name and wanted.isdecimal() and (":" not in name or name.endswith("]")):
        if int(wanted) != port:
            return False
        entry = name
    entry = entry.strip("[]").removeprefix("*")
    if address is not None:
        return _address(entry) == address
    return host.endswith(entry) if entry.startswith(".") else f".{host}".endswith(f".{entry}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _server(text: str, name: str) -> str:
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


def _bearer(token: str, name: str) -> str:
    """Return the header for *token*, unless it could not stand in one."""
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(f"{name}: this is no token: it is not one line of plain text")
    return f"Bearer {token}"


def _read(path: Path, name: str) -> str:
    """Read a small text file whose path the operator wrote as *name*."""
    try:
        text = path.expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{name}: {path} cannot be read: {problem}") from problem
    if not text:
        raise ConfigurationError(f"{name}: {path} is empty")
    return text
