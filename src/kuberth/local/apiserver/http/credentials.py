"""Who the server is and who may come in: a CA of its own, two certificates and a token, kept in a directory.

In: a directory and the names the server is reached under. Out: the files, made where they are missing,
unreadable or near their end, and the kubeconfig that uses them. Nobody but their owner can read them.
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

from kuberth.https.certificates import LOOPBACK_NAMES, CertificateFiles, write_privately
from kuberth.https.issuing import YEAR, KeyPair, issue
from kuberth.text.documents import write_yaml

logger = logging.getLogger(__name__)

ADMIN: Final = "kuberth-admin"
ADMIN_GROUP: Final = "system:masters"

_RENEW_BEFORE: Final = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """What `directory` holds. Every user that can show the certificate or the token is admin."""

    directory: Path
    ca_certificate: bytes
    client_certificate: bytes
    client_key: bytes = field(repr=False)
    token: str = field(repr=False)

    @classmethod
    def in_directory(
        cls, directory: Path, *, names: Sequence[str] = (), now: datetime.datetime | None = None
    ) -> Self:
        """Read them, or make what is missing; `names` are reached besides those of the loopback."""
        now = now or datetime.datetime.now(datetime.UTC)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _Folder(directory, now)
        ca = folder.authority()
        folder.server(ca, (*LOOPBACK_NAMES, *names))
        admin = folder.admin(ca)
        return cls(
            directory,
            ca_certificate=ca.certificate_pem,
            client_certificate=admin.certificate_pem,
            client_key=admin.key_pem,
            token=folder.token(),
        )

    def server_certificates(self) -> CertificateFiles:
        """TLS for the listening socket; a client may show a certificate of this CA, and no other."""
        folder = self.directory
        return CertificateFiles(folder / "server.crt", folder / "server.key", client_ca=folder / "ca.crt")


def kubeconfig(url: str, credentials: ClusterCredentials, *, name: str = "kuberth") -> str:
    """A kubeconfig for the admin, complete in itself."""

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return write_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": url,
                        "certificate-authority-data": text(credentials.ca_certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": ADMIN,
                    "user": {
                        "client-certificate-data": text(credentials.client_certificate),
                        "client-key-data": text(credentials.client_key),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": ADMIN}}],
            "current-context": name,
        }
    )


class _Folder:
    """The files, each read if it is still good and made anew if not."""

    def __init__(self, directory: Path, now: datetime.datetime) -> None:
        self._directory = directory
        self._now = now

    def authority(self) -> KeyPair:
        pair = self._read("ca")
        # What it signs must not outlive it.
        if pair is not None and pair.lasts(self._now, left=YEAR + _RENEW_BEFORE):
            return pair
        return self._write("ca", issue("kuberth-ca", is_authority=True, now=self._now, life=10 * YEAR))

    def server(self, ca: KeyPair, names: Sequence[str]) -> KeyPair:
        pair = self._good("server", ca)
        if pair is not None and pair.covers(names):
            return pair
        return self._write("server", issue("kuberth-apiserver", names=names, signer=ca, now=self._now))

    def admin(self, ca: KeyPair) -> KeyPair:
        return self._good("admin", ca) or self._write(
            "admin", issue(ADMIN, organization=ADMIN_GROUP, signer=ca, now=self._now)
        )

    def token(self) -> str:
        path = self._directory / "token"
        try:
            token = path.read_text(encoding="ascii").strip()
            path.chmod(0o600)
        except (OSError, UnicodeDecodeError):
            token = ""
        if len(token) < 32:
            token = secrets.token_urlsafe(32)
            write_privately(path, token.encode())
        return token

    def _good(self, name: str, ca: KeyPair) -> KeyPair | None:
        pair = self._read(name)
        good = pair is not None and pair.lasts(self._now, left=_RENEW_BEFORE) and pair.is_signed_by(ca)
        return pair if good else None

    def _read(self, name: str) -> KeyPair | None:
        certificate, key = (self._directory / f"{name}.{end}" for end in ("crt", "key"))
        if not certificate.exists() and not key.exists():
            return None
        try:
            pair = KeyPair.from_pem(certificate.read_bytes(), key.read_bytes())
            # A copy or a backup may have widened them.
            certificate.chmod(0o600)
            key.chmod(0o600)
        except (OSError, ValueError, TypeError) as error:
            logger.warning("%s and its key cannot be used and are made anew: %s", certificate, error)
            return None
        return pair

    def _write(self, name: str, pair: KeyPair) -> KeyPair:
        # A crash between the two leaves a pair that does not match, which the next start makes anew.
        write_privately(self._directory / f"{name}.key", pair.key_pem)
        write_privately(self._directory / f"{name}.crt", pair.certificate_pem)
        return pair
