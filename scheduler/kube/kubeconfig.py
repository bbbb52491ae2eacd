"""Kubeconfig files: merged and read by the official client, completed with what it drops."""

import base64
import binascii
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from scheduler.errors import ConfigurationError
from scheduler.kube.access import (
    REREAD_SECONDS,
    Access,
    bearer,
    official_module,
    read_file,
    server_url,
)
from scheduler.kube.proxies import with_proxy
from scheduler.kube.tls import Tls, TlsCache


class KubeconfigSource:
    """One or more kubeconfig files, merged as kubectl does: the first value wins.

    Args:
        paths: Files, separated as in PATH.
        context: The context to use, if not the current one.
    """

    def __init__(self, paths: str, context: str | None = None) -> None:
        self._paths = paths
        self._context = context
        self._tls = TlsCache()
        self._exec_plugin = _ExecPlugin()
        self._read: tuple[_Entry, _Entry] | None = None

    def __call__(self, refused: bool) -> Access:
        """Read the files; run the exec plugin where its last answer has expired or was refused.

        The kubeconfig itself is read again only after a refusal: it seldom changes, and parsing
        YAML would slow down everything else. The tokens and certificates that it names are read
        each time.
        """
        if self._read is None or refused:
            self._read = _entries(self._paths, self._context)
        cluster, user = self._read
        server = server_url(cluster.text("server"), cluster.at("server"))
        identity = self._identity(cluster, user, refused)
        access = Access(
            server=server,
            authorization=identity.authorization,
            tls=self._tls.context(_tls(cluster, user, identity))
            if server.startswith("https")
            else True,
            server_hostname=cluster.text("tls-server-name") or None,
            fresh_seconds=min(REREAD_SECONDS, identity.fresh_seconds),
        )
        proxy = cluster.text("proxy-url")
        return with_proxy(access, proxy, cluster.at("proxy-url")) if proxy else access

    def _identity(self, cluster: "_Entry", user: "_Entry", refused: bool) -> "_Identity":
        """Return the credentials of *user*; the order of precedence is client-go's."""
        certificate = _Identity(
            certificate=user.content("client-certificate"), key=user.content("client-key")
        )
        if path := user.text("tokenFile"):
            token = read_file(user.beside(path), user.at("tokenFile"))
            return replace(certificate, authorization=bearer(token, user.at("tokenFile")))
        if token := user.text("token").strip():
            return replace(certificate, authorization=bearer(token, user.at("token")))
        if "exec" in user.values:
            return self._exec_plugin.credentials(cluster, user, refused).over(certificate)
        if "auth-provider" in user.values:
            return _from_auth_provider(self._paths, self._context, user)
        if name := user.text("username"):
            secret = base64.b64encode(f"{name}:{user.text('password')}".encode()).decode()
            return replace(certificate, authorization=f"Basic {secret}")
        return certificate


@dataclass(frozen=True, slots=True)
class _Identity:
    """The credentials of a user: a header, a certificate with its key, or both."""

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
        return read_file(self.beside(path), self.at(key)) if path else ""


def _entries(paths: str, context: str | None) -> tuple[_Entry, _Entry]:
    """Return cluster and user of the context in use."""
    official = official_module("config.kube_config")
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
    in_use: Mapping[str, str] = loader.current_context["context"]
    user = loader._user  # noqa: SLF001 - the loader resolves it and offers no other way to it
    if user is None and in_use.get("user"):
        raise ConfigurationError(
            f"{paths}: users: the context in use names user {in_use['user']!r}, who is not there"
        )
    return (
        _entry(loader._cluster, f"clusters[{in_use['cluster']}].cluster", paths),  # noqa: SLF001 - as above
        _entry(user, f"users[{in_use.get('user', '')}].user", paths),
    )


def _entry(node: Any, name: str, paths: str) -> _Entry:
    """Convert a node of the loader; a context without a user has an empty entry."""
    if node is None:
        return _Entry(Path(paths), name, {})
    return _Entry(Path(node.path), name, node.value or {})


def _merged(paths: str) -> Any:
    """Merge the files in *paths*; those that do not exist are passed over, as kubectl does."""
    official = official_module("config.kube_config")
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


class _ExecPlugin:
    """Caches the answer of an exec plugin until it expires."""

    def __init__(self) -> None:
        self._answer: _Identity | None = None
        self._expires_at = math.inf

    def credentials(self, cluster: _Entry, user: _Entry, refused: bool) -> _Identity:
        """Return the cached answer; run the plugin if that has expired or was *refused*."""
        if self._answer is None or refused or time.time() >= self._expires_at:
            status = _run_exec_plugin(cluster, user)
            token = str(status.get("token") or "").strip()
            self._answer = _Identity(
                authorization=bearer(token, user.at("exec")) if token else "",
                certificate=status.get("clientCertificateData", ""),
                key=status.get("clientKeyData", ""),
            )
            self._expires_at = _expiry(status.get("expirationTimestamp"), user)
        return replace(self._answer, fresh_seconds=max(1.0, self._expires_at - time.time()))


def _run_exec_plugin(cluster: _Entry, user: _Entry) -> Mapping[str, Any]:
    official = official_module("config.kube_config")
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
    """Return when to run the plugin again, in wall time: a little before *stamp*."""
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
    """Use the official client for the auth providers that Kubernetes removed: gcp and oidc."""
    official = official_module("config.kube_config")
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


def _tls(cluster: _Entry, user: _Entry, identity: _Identity) -> Tls:
    skip = cluster.values.get("insecure-skip-tls-verify", False)
    if not isinstance(skip, bool):
        raise ConfigurationError(
            f"{cluster.at('insecure-skip-tls-verify')}: must be true or false, not {skip!r}"
        )
    return Tls(
        authorities=cluster.content("certificate-authority"),
        certificate=identity.certificate,
        key=identity.key,
        verify=not skip,
        authorities_at=cluster.at("certificate-authority"),
        certificate_at=user.at("exec" if "exec" in user.values else "client-certificate"),
    )
