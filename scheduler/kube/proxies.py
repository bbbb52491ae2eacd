"""Proxies: which one a request goes through, if any, as Go reads the environment."""

import base64
import ipaddress
from dataclasses import replace
from urllib.request import getproxies_environment

from yarl import URL

from scheduler.errors import ConfigurationError
from scheduler.kube.access import Access


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


def environment_proxy(server: str) -> str:
    """Return the proxy that the environment names for *server*; empty for none."""
    url, proxies = URL(server), getproxies_environment()
    proxy = proxies.get(url.scheme, "")
    direct = bypasses_proxy(url.host or "", url.port or 443, proxies.get("no", ""))
    return "" if direct else proxy


def bypasses_proxy(host: str, port: int, no_proxy: str) -> bool:
    """Tell whether NO_PROXY exempts *host*, as Go reads it: names, addresses, networks, ports."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(
        _exempts(entry.strip().lower(), host.lower().rstrip("."), address, port)
        for entry in no_proxy.split(",")
        if entry.strip()
    )


def _exempts(
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
