"""URLs: url("https://host:80/path?q=1") and its methods. Parsed as Go's net/url parses a request URI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

from kuberth.cel.costs import first_tenth
from kuberth.cel.declarations import Overload, function, method
from kuberth.cel.library.formatting import go_quote
from kuberth.cel.values import LibraryValue, Map, Value
from kuberth.errors import CelRuntimeError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]*", re.ASCII)
_UNESCAPED_PATH = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")
_VALID_IN_PATH = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*", re.ASCII)


@dataclass(slots=True, eq=False)
class URLValue(LibraryValue):
    """A URL in its parts."""

    cel_name = "kubernetes.URL"

    scheme: str
    host: str
    escaped_path: str
    query: str
    text: str

    def same(self, other: URLValue) -> bool:
        return self.text == other.text


class _URLError(ValueError):
    """The text is not a URL."""


def _parse(text: str, *, request: bool) -> URLValue:
    """Parse a URL; it must be absolute, or an absolute path."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise _URLError("net/url: invalid control character in URL")
    if not text and request:
        raise _URLError("empty url")
    if text == "*":
        return URLValue("", "", "*", "", "*")
    if text.startswith(":"):
        raise _URLError("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest, _, query = (text[found.end() :] if found else text).partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URLValue(scheme, "", "", query, text)  # opaque: mailto:x
        if request:
            raise _URLError("invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = _parse_authority(scheme, authority)
    if _BAD_ESCAPE.search(rest):
        raise _URLError("invalid URL escape")
    return URLValue(scheme, host, _escaped(rest), query, scheme + text[len(scheme) :])


def _parse_authority(scheme: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    host = _parse_host(scheme, host)
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        raise _URLError("net/url: invalid userinfo")
    return host


def _parse_host(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        raise _URLError("invalid IP-literal")
    if opening == 0:
        closing = host.rfind("]")
        if closing < 0:
            raise _URLError("missing ']' in host")
        _check_port(host[closing + 1 :])
        return f"[{_parse_literal(host[1:closing])}]{host[closing + 1 :]}"
    colon = host.find(":")
    if colon >= 0:
        if scheme not in ("http", "https"):
            colon = host.rfind(":")
        _check_port(host[colon:])
    return _unescape_host(host)


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise _URLError(f"invalid port {go_quote(port)} after host")


def _parse_literal(address: str) -> str:
    """An IPv6 address in brackets, with a zone after %25."""
    head, zone_mark, zone = address.partition("%25")
    text = _unescape_host(head)
    if zone_mark:
        text += "%" + _unescape(zone)
    try:
        IPv6Address(text)
    except ValueError as exc:
        raise _URLError("invalid host: unable to parse IP") from exc
    return text


def _unescape_host(host: str) -> str:
    if _BAD_ESCAPE.search(host):
        raise _URLError("invalid URL escape")
    for escape in re.findall(r"%([0-9A-Fa-f]{2})", host):
        # Only non-ASCII bytes and the percent sign may be escaped.
        if int(escape, 16) < 0x80 and escape != "25":
            raise _URLError(f'invalid URL escape "%{escape}"')
    if not _HOST.fullmatch(host):
        raise _URLError("invalid character in host name")
    return _unescape(host)


def _unescape(text: str, *, plus: bool = False) -> str:
    if plus:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})",
        lambda found: bytes((int(found[1], 16),)),
        text.encode("utf-8", "surrogatepass"),
    )
    return raw.decode("utf-8", "replace")


def _escaped(path: str) -> str:
    """The path as written if that is a valid encoding, else escaped again."""
    if _VALID_IN_PATH.fullmatch(path):
        return path
    octets = _unescape(path).encode("utf-8", "surrogatepass")
    return "".join(chr(octet) if octet in _UNESCAPED_PATH else f"%{octet:02X}" for octet in octets)


def _url(text: str) -> URLValue:
    try:
        _parse(text, request=True)
        before, _, fragment = text.partition("#")
        if _BAD_ESCAPE.search(fragment):
            raise _URLError("invalid URL escape")
        return _parse(before, request=False)
    except _URLError as exc:
        raise CelRuntimeError(
            f"URL parse error during conversion from string: parse {go_quote(text[:1000])}: {exc}"
        ) from exc


def url_problem(text: str) -> str:
    """The problem of the text, or None."""
    try:
        _parse(text, request=True)
    except _URLError as exc:
        return f"parse {go_quote(text[:1000])}: {exc}"
    return ""


def _split_port(host: str) -> tuple[str, str]:
    """The host, with the brackets of an IPv6 address, and the port; either may be empty."""
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]) and not host.endswith("]"):
        return host[:colon], host[colon + 1 :]
    return host, ""


def _hostname(url: URLValue) -> str:
    host = _split_port(url.host)[0]
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _query(url: URLValue) -> Map:
    fields: dict[str, list[str]] = {}
    for part in url.query.split("&") if url.query else ():
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
            continue
        fields.setdefault(_unescape(key, plus=True), []).append(_unescape(value, plus=True))
    entries: dict[Value, Value] = dict(fields)
    return Map(entries)


LIBRARY: tuple[Overload, ...] = (
    function("url(string) -> URL", _url, cost=first_tenth),
    method("URL.getScheme() -> string", lambda url: url.scheme),
    method("URL.getHost() -> string", lambda url: url.host),
    method("URL.getHostname() -> string", _hostname),
    method("URL.getPort() -> string", lambda url: _split_port(url.host)[1]),
    method("URL.getEscapedPath() -> string", lambda url: url.escaped_path),
    method("URL.getQuery() -> map(string, list(string))", _query),
    function("isURL(string) -> bool", lambda text: not url_problem(text)),
)
