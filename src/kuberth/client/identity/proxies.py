"""The proxy for connections to the API server.

In: a kubeconfig's `proxy-url`, or the environment with the rules of Go programs (HTTPS_PROXY, NO_PROXY with
domains, addresses and CIDR ranges). Out: a `Proxy`, or None for a direct connection.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from kuberth.client.identity.client_config import Proxy, Secret, ServerAddress
from kuberth.errors import ConfigError


def parse_proxy(url: str, *, where: str) -> Proxy:
    """Parse a proxy's address. It may contain a password, so no message repeats it."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{where}: cannot be read; write it as http://host:port") from None
    if parts.scheme in ("socks5", "socks5h"):
        raise ConfigError(f"{where}: SOCKS proxies are not supported; use an http:// or https:// proxy")
    if parts.scheme not in ("http", "https"):
        raise ConfigError(f"{where}: scheme {parts.scheme!r} is not supported; use http:// or https://")
    if not host:
        raise ConfigError(f"{where}: has no host; write it as http://host:port")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = Secret(f"Basic {base64.b64encode(pair.encode()).decode()}")
    secure = parts.scheme == "https"
    return Proxy(host=host, port=port or (443 if secure else 80), secure=secure, authorization=authorization)


def proxy_from_environment(address: ServerAddress, environment: Mapping[str, str]) -> Proxy | None:
    name = "HTTPS_PROXY" if address.secure else "HTTP_PROXY"
    url = environment.get(name) or environment.get(name.lower())
    if not url or _bypassed(address, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
        return None
    return parse_proxy(url, where=f"environment variable {name}")


def _bypassed(address: ServerAddress, no_proxy: str) -> bool:
    host = address.host.lower().rstrip(".")
    ip = _ip(host)
    if host == "localhost" or (ip is not None and ip.is_loopback):
        return True
    entries = (each.strip().lower() for each in no_proxy.split(","))
    return any(_covers(entry, host, ip, address.port) for entry in entries if entry)


def _covers(
    entry: str, host: str, ip: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int
) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return ip is not None and ip in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _ip(entry) is None:
        before, colon, number = entry.rpartition(":")
        if colon and number.isdigit():
            if int(number) != port:
                return False
            entry = before.strip("[]")
    if ip is not None:
        return _ip(entry) == ip
    entry = entry.removeprefix("*")
    # ".example.com" covers subdomains, "example.com" the name itself, too.
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
