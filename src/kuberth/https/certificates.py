"""Server certificates: files that are reloaded when they change, self-signed, or in memory.

In: files, or host names. Out: an SSL context for the next handshake. `ssl` loads keys only from files, so a
generated key is in a file for a moment: in memory where the system supports it, else in a private directory.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from kuberth.errors import ServingError
from kuberth.text.documents import file_stamp

logger = logging.getLogger(__name__)

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class Certificates(Protocol):
    def context(self) -> ssl.SSLContext:
        """The context for the next handshake; raises ServingError if there is none that works."""
        ...


class CertificateFiles:
    """Implements `Certificates`: PEM files, reloaded when either of them changed."""

    def __init__(self, certificate: Path, key: Path, *, client_ca: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._stamps: object = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        stamps = file_stamp(self._certificate), file_stamp(self._key)
        try:
            if self._context is None or stamps != self._stamps:
                # A new context each time: a chain that does not load must not change the one in use.
                self._context = _load(self._certificate, self._key, client_ca=self._client_ca)
                self._stamps = stamps
        except (OSError, ssl.SSLError) as error:
            problem = f"{self._certificate} and {self._key} are not a certificate and its key: {error}"
            if self._context is None:
                raise ServingError(f"{problem}; check --tls-cert-file and --tls-private-key-file") from error
            # In the middle of a rotation the two do not match yet.
            logger.warning("%s; the previous certificate stays in use", problem)
        return self._context


class SelfSigned:
    """Implements `Certificates`: a generated key and certificate, valid for a year."""

    def __init__(self, *names: str, client_ca: Path | None = None) -> None:
        """`names` are host names and addresses; the host's own name and localhost are always among them."""
        self._names = names
        self._client_ca = client_ca
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        if self._context is None:
            # Imported here: with certificate files the library is not needed.
            from kuberth.https.issuing import issue

            host = socket.gethostname()
            pair = issue(host, names=[host, *LOOPBACK_NAMES, *self._names])
            with private_file(pair.certificate_pem + pair.key_pem) as file:
                try:
                    self._context = _load(file, file, client_ca=self._client_ca)
                except (OSError, ssl.SSLError) as error:
                    raise ServingError(f"the client CA {self._client_ca} cannot be read: {error}") from error
        return self._context


class CertificateInMemory:
    """Implements `Certificates`: PEM text; clients may authenticate with a certificate of `client_ca`."""

    def __init__(self, certificate: bytes, key: bytes, *, client_ca: bytes) -> None:
        with private_file(certificate + key) as file:
            self._context = _load(file, file, client_ca=None)
        self._context.load_verify_locations(cadata=client_ca.decode())
        self._context.verify_mode = ssl.CERT_OPTIONAL

    def context(self) -> ssl.SSLContext:
        return self._context


@contextmanager
def private_file(content: bytes) -> Iterator[Path]:
    """A file with this content while the block lasts, which only this user can read."""
    if Path("/proc/self/fd").is_dir() and hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("kuberth-tls"), "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.TemporaryDirectory(prefix="kuberth-tls-") as folder:
            path = Path(folder, "tls.pem")
            write_privately(path, content)
            yield path


def _load(certificate: Path, key: Path, *, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # For an encrypted key OpenSSL would prompt on the terminal.
    context.load_cert_chain(certificate, key, password=_no_password)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        # Optional: a client without one may have a token.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _no_password() -> str:
    raise ssl.SSLError("the key is encrypted; use a key without a password")


def write_privately(path: Path, content: bytes) -> None:
    """Write a file atomically, readable only by its owner."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
