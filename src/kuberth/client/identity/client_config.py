"""Address and credentials of one API server.

In: nothing; `kubeconfig` and `in_cluster` build it. Out: `ClientConfig`, which prints without secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from kuberth.errors import ConfigError

EXEC_API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Secret:
    """A string that prints as dots; `reveal` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """An HTTP proxy that supports CONNECT; `secure`: TLS to the proxy itself, too."""

    host: str
    port: int
    secure: bool = False
    authorization: Secret | None = None
    """The value of Proxy-Authorization."""

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Certificate authority and client certificate; data takes precedence over files, files are reloaded."""

    ca_data: str = field(default="", repr=False)
    ca_file: str = ""
    server_name: str = ""
    """The name in the server's certificate, if it differs from the host of the address."""
    insecure: bool = False
    certificate_data: str = field(default="", repr=False)
    certificate_file: str = ""
    key_data: Secret | None = None
    key_file: str = ""

    @property
    def has_client_certificate(self) -> bool:
        return bool(self.certificate_data or self.certificate_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that prints credentials (client.authentication.k8s.io)."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster_info: Mapping[str, Any] | None = field(default=None, repr=False)
    """The cluster's data for the command, if it requests them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The user of the Impersonate headers."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The address of an API server, and an identity there. Every secret in it is a `Secret`."""

    server: str
    """https://host:port, with an optional path prefix."""
    source: str = "the client configuration"
    """The origin of this configuration, for messages: a file and context, or the pod's service account."""
    peer: str = "API server"
    """The name of the kind of server, for messages."""
    namespace: str = "default"
    tls: TlsSettings = TlsSettings()
    proxy: Proxy | None = None
    token: Secret | None = None
    token_file: str = ""
    username: str = ""
    password: Secret | None = None
    exec_plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None

    @property
    def address(self) -> ServerAddress:
        return parse_server(self.server, where=self.source)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The parts of the server's URL; `prefix` has no trailing slash."""

    secure: bool
    host: str
    port: int
    prefix: str

    @property
    def authority(self) -> str:
        """Host and port for the Host header and CONNECT."""
        return f"{bracketed(self.host)}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"


def parse_server(server: str, *, where: str) -> ServerAddress:
    """Parse a server's address; without a scheme it is plain HTTP, as in client-go."""
    try:
        parts = urlsplit(server if "://" in server else f"http://{server}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        # The message does not repeat the address, which may contain a password.
        raise ConfigError(f"{where}: the server address is invalid; write it as https://host:port")
    if parts.username or parts.password:
        raise ConfigError(
            f"{where}: the server address contains a user or password; use a users: entry instead"
        )
    secure = parts.scheme == "https"
    return ServerAddress(secure, host, port or (443 if secure else 80), parts.path.rstrip("/"))


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
