"""TLS contexts, rebuilt when their files change.

In: `TlsSettings` and, from an exec plugin, a client certificate. Out: an `ssl.SSLContext` and a generation
number that grows with every change, so that connections made before it can be retired.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kuberth.client.identity.client_config import TlsSettings
from kuberth.client.identity.credentials import Credential
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ConfigError, UnauthorizedError

logger = logging.getLogger(__name__)

CHECK_NS: Final = 10 * NANOSECONDS
"""How often the files are checked for changes."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class TlsContexts:
    """The current context."""

    def __init__(self, settings: TlsSettings, clock: Clock, *, source: str) -> None:
        self.generation = 0
        self._settings = settings
        self._clock = clock
        self._source = source
        self._pair: tuple[str, str] | None = None
        self._signature = self._signatures()
        self._check_at = clock.now_ns() + CHECK_NS
        self.context = self._build(None)
        """Loads the files; raises ConfigError if they cannot be used."""

    def refresh(self, credential: Credential) -> None:
        """Reload changed files or take another certificate; cheap if nothing changed."""
        pair = (credential.certificate, credential.key.reveal()) if credential.key is not None else None
        now = self._clock.now_ns()
        if pair == self._pair and now < self._check_at:
            return
        self._check_at = now + CHECK_NS
        signature = self._signatures()
        if pair == self._pair and signature == self._signature:
            return
        try:
            context = self._build(pair)
        except ConfigError as error:
            if pair != self._pair:
                raise UnauthorizedError(str(error)) from error
            # The rotation of the files may be incomplete.
            logger.warning("the TLS files changed but cannot be used, the old ones stay in use: %s", error)
            return
        self.context, self._pair, self._signature = context, pair, signature
        self.generation += 1

    def _signatures(self) -> _Signature:
        settings = self._settings
        files = (settings.ca_file, settings.certificate_file, settings.key_file)
        return tuple(_signature(path) for path in files if path)

    def _build(self, pair: tuple[str, str] | None) -> ssl.SSLContext:
        settings = self._settings
        # Not create_default_context: newer Pythons make it refuse CAs that many clusters have.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if settings.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif settings.ca_data or settings.ca_file:
            self._load_ca(context)
        else:
            context.load_default_certs()
        if pair is not None:
            self._load_pair(context, *pair, what="the exec plugin's client certificate")
        elif settings.has_client_certificate:
            certificate = settings.certificate_data or self._text(settings.certificate_file)
            key = settings.key_data.reveal() if settings.key_data else self._text(settings.key_file)
            self._load_pair(
                context, certificate, key, what=settings.certificate_file or "the client certificate"
            )
        return context

    def _load_ca(self, context: ssl.SSLContext) -> None:
        what = self._settings.ca_file or "certificate-authority-data"
        try:
            context.load_verify_locations(cadata=self._settings.ca_data or self._text(self._settings.ca_file))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self._source}: {what} holds no certificate authority; it must be a PEM text "
                "that begins with -----BEGIN CERTIFICATE-----"
            ) from error

    def _load_pair(self, context: ssl.SSLContext, certificate: str, key: str, *, what: str) -> None:
        try:
            with _path_of(certificate) as certificate_path, _path_of(key) as key_path:
                # Without a password OpenSSL would prompt on the terminal.
                context.load_cert_chain(certificate_path, key_path, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "not PEM"
            raise ConfigError(
                f"{self._source}: {what} and its key cannot be used ({reason}); "
                "they must be PEM texts that belong together, the key without a password"
            ) from None

    def _text(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or "not a text file"
            raise ConfigError(f"{self._source}: {path} cannot be read: {problem}; check the path") from error


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@contextmanager
def _path_of(content: str) -> Iterator[str]:
    """A path from which OpenSSL can read `content`; where possible a key is not written to a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kuberth", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content.encode())
        file.flush()
        yield file.name
