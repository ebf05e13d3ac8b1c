"""Heads of requests: request line, credentials, impersonation, and accepted types.

In: a `ClientConfig` and the current credential. Out: the bytes of a request's head.
"""

from __future__ import annotations

import platform
from typing import Final
from urllib.parse import quote

from kuberth import __version__
from kuberth.client.identity.client_config import ClientConfig, Impersonation
from kuberth.client.identity.credentials import Credential

JSON: Final = "application/json"


class RequestHeads:
    """Formats heads; the lines that all requests share are formatted once per credential."""

    def __init__(self, config: ClientConfig, *, user_agent: str = "") -> None:
        self._prefix = config.address.prefix
        system = f"{platform.system().lower()}/{platform.machine()}"
        self._common = _common_headers(config, user_agent or f"kuberth/{__version__} ({system})")
        self._credential: Credential | None = None
        self._always = ""
        self._post_begin = f"POST {self._prefix}".encode()
        self._post_end = b""

    def head(
        self, method: str, path: str, headers: str, credential: Credential, *, accept: str = JSON
    ) -> bytes:
        if self._credential is not credential:
            self._use(credential)
        always = self._always
        if accept != JSON:
            always = always.replace(f"Accept: {JSON}\r\n", f"Accept: {accept}\r\n")
        return f"{method} {self._prefix}{path} HTTP/1.1\r\n{always}{headers}\r\n".encode()

    def post(self, path: str, body: bytes, credential: Credential) -> bytes:
        """Format a POST request with its body. Only the path and the length differ between requests."""
        if self._credential is not credential:
            self._use(credential)
        return b"%b%b%b%d\r\n\r\n%b" % (self._post_begin, path.encode(), self._post_end, len(body), body)

    def _use(self, credential: Credential) -> None:
        """Format the lines that all requests with this credential share."""
        self._credential, self._always = credential, self._common
        if credential.authorization is not None:
            self._always += f"Authorization: {credential.authorization.reveal()}\r\n"
        self._post_end = f" HTTP/1.1\r\n{self._always}Content-Type: {JSON}\r\nContent-Length: ".encode()


def _common_headers(config: ClientConfig, user_agent: str) -> str:
    address = config.address
    lines = [f"Host: {address.authority}", f"User-Agent: {user_agent}", f"Accept: {JSON}"]
    if config.impersonation is not None:
        lines += _impersonation_headers(config.impersonation)
    return "".join(f"{_one_line(line)}\r\n" for line in lines)


def _impersonation_headers(impersonation: Impersonation) -> list[str]:
    lines = [f"Impersonate-User: {impersonation.user}"]
    if impersonation.uid:
        lines.append(f"Impersonate-Uid: {impersonation.uid}")
    lines += (f"Impersonate-Group: {group}" for group in impersonation.groups)
    for key, values in impersonation.extra.items():
        lines += (f"Impersonate-Extra-{quote(key, safe='')}: {value}" for value in values)
    return lines


def _one_line(header: str) -> str:
    """The header without line breaks, which would start another header."""
    return header.replace("\r", " ").replace("\n", " ")
