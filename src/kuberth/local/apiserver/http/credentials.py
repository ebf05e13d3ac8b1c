"""The server's credentials: its own CA, two certificates and a token.

In: a directory to store them, or none, and the names of the server. Out: the credentials, created if they are
missing, invalid or about to expire, and the kubeconfig that uses them. Only their owner can read them, and
replacing a file is logged.
"""

from __future__ import annotations

import base64
import datetime
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from kuberth.https.certificates import LOOPBACK_NAMES, CertificateInMemory, write_privately
from kuberth.https.issuing import YEAR, KeyPair, issue
from kuberth.local.apiserver.objects import Obj
from kuberth.text.documents import write_yaml

logger = logging.getLogger(__name__)

_CLUSTER: Final = "kuberth"
ADMIN: Final = "kuberth-admin"
ADMIN_GROUP: Final = "system:masters"

_RENEW_BEFORE: Final = datetime.timedelta(days=30)
_SHORTEST_TOKEN: Final = 32


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """The user for the client certificate and the token."""

    ca_certificate: bytes
    server_certificate: bytes
    server_key: bytes = field(repr=False)
    client_certificate: bytes
    client_key: bytes = field(repr=False)
    token: str = field(repr=False)

    @classmethod
    def in_directory(
        cls, directory: Path, *, names: Sequence[str] = (), now: datetime.datetime | None = None
    ) -> Self:
        """Read them, or create missing ones; `names` are names of the server besides the loopback."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls._of(_Folder(directory, now or datetime.datetime.now(datetime.UTC)), names)

    @classmethod
    def in_memory(cls, *, names: Sequence[str] = ()) -> Self:
        """New credentials that are not written to disk."""
        return cls._of(_Folder(None, datetime.datetime.now(datetime.UTC)), names)

    @classmethod
    def _of(cls, folder: _Folder, names: Sequence[str]) -> Self:
        ca = folder.authority()
        server, admin = folder.server(ca, (*LOOPBACK_NAMES, *names)), folder.admin(ca)
        return cls(
            ca_certificate=ca.certificate_pem,
            server_certificate=server.certificate_pem,
            server_key=server.key_pem,
            client_certificate=admin.certificate_pem,
            client_key=admin.key_pem,
            token=folder.token(),
        )

    def server_certificates(self) -> CertificateInMemory:
        """TLS for the listening socket; client certificates must be signed by this CA."""
        return CertificateInMemory(self.server_certificate, self.server_key, client_ca=self.ca_certificate)


def kubeconfig(url: str, credentials: ClusterCredentials) -> str:
    """A self-contained kubeconfig for the admin."""
    return write_yaml(kubeconfig_tree(url, credentials))


def kubeconfig_tree(url: str, credentials: ClusterCredentials) -> Obj:
    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _CLUSTER,
                "cluster": {"server": url, "certificate-authority-data": text(credentials.ca_certificate)},
            }
        ],
        "users": [
            {
                "name": ADMIN,
                "user": {
                    "client-certificate-data": text(credentials.client_certificate),
                    "client-key-data": text(credentials.client_key),
                    # For programs without client certificates, such as a browser.
                    "token": credentials.token,
                },
            }
        ],
        "contexts": [{"name": _CLUSTER, "context": {"cluster": _CLUSTER, "user": ADMIN}}],
        "current-context": _CLUSTER,
    }


class _Folder:
    """The files, each read if it is valid and created otherwise; without a directory, all are created."""

    def __init__(self, directory: Path | None, now: datetime.datetime) -> None:
        self._directory = directory
        self._now = now

    def authority(self) -> KeyPair:
        pair = self._read("ca")
        if pair is None:
            return self._new_authority()
        starts, ends = pair.certificate.not_valid_before_utc, pair.certificate.not_valid_after_utc
        if self._now < starts:
            # Existing kubeconfigs trust it; correcting the clock makes it valid again.
            logger.warning(
                "%s is valid from %s on, but this machine's clock says %s: is the clock right? The CA is "
                "kept; clients with the same clock refuse it",
                f"{self._directory}/ca.crt",
                _day(starts),
                _day(self._now),
            )
        # Certificates must not outlive the CA.
        elif self._now + YEAR + _RENEW_BEFORE >= ends:
            logger.warning(
                "the CA in %s ends on %s and is replaced by a new one: copies of the kubeconfig made before "
                "trust the server no longer, so copy it again",
                self._directory,
                _day(ends),
            )
            return self._new_authority()
        return pair

    def _new_authority(self) -> KeyPair:
        return self._write("ca", issue("kuberth-ca", is_authority=True, now=self._now, life=10 * YEAR))

    def server(self, ca: KeyPair, names: Sequence[str]) -> KeyPair:
        pair = self._good("server", ca)
        if pair is not None and pair.covers(names):
            return pair
        return self._write("server", issue("kuberth-apiserver", names=names, signer=ca, now=self._now))

    def admin(self, ca: KeyPair) -> KeyPair:
        pair = self._good("admin", ca)
        if pair is not None:
            return pair
        return self._write("admin", issue(ADMIN, organization=ADMIN_GROUP, signer=ca, now=self._now))

    def token(self) -> str:
        if self._directory is None:
            return secrets.token_urlsafe(32)
        path = self._directory / "token"
        try:
            token = path.read_text(encoding="ascii").strip()
            path.chmod(0o600)
        except (OSError, UnicodeDecodeError):
            token = ""
        if len(token) < _SHORTEST_TOKEN:
            token = secrets.token_urlsafe(32)
            write_privately(path, token.encode())
        return token

    def _good(self, name: str, ca: KeyPair) -> KeyPair | None:
        pair = self._read(name)
        if pair is None or not pair.is_signed_by(ca):
            return None
        ends = pair.certificate.not_valid_after_utc
        if self._now + _RENEW_BEFORE >= ends:
            verb = "ended" if ends <= self._now else "ends"
            logger.warning(
                "the certificate %s/%s.crt %s on %s and is renewed", self._directory, name, verb, _day(ends)
            )
            return None
        return pair

    def _read(self, name: str) -> KeyPair | None:
        if self._directory is None:
            return None
        certificate, key = (self._directory / f"{name}.{end}" for end in ("crt", "key"))
        if not certificate.exists() and not key.exists():
            return None
        try:
            pair = KeyPair.from_pem(certificate.read_bytes(), key.read_bytes())
            # Copying or restoring may have widened the permissions.
            certificate.chmod(0o600)
            key.chmod(0o600)
        except PermissionError:
            raise  # another user's file is not replaced
        except (OSError, ValueError, TypeError) as error:
            logger.warning("%s and its key cannot be used and are replaced: %s", certificate, error)
            return None
        return pair

    def _write(self, name: str, pair: KeyPair) -> KeyPair:
        if self._directory is not None:
            # A crash between the two leaves a pair that does not match, which the next start replaces.
            write_privately(self._directory / f"{name}.key", pair.key_pem)
            write_privately(self._directory / f"{name}.crt", pair.certificate_pem)
        return pair


def _day(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
