"""Who the server is and who may come in: a CA of its own, two certificates and a token, kept in a directory.

In: a directory and the names the server is reached under. Out: the files, made where they are missing,
unreadable or near their end, and the kubeconfig that uses them. Nobody but their owner can read them.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import logging
import os
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

logger = logging.getLogger(__name__)

ADMIN: Final = "kuberth-admin"
ADMIN_GROUP: Final = "system:masters"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")

_CA_LIFE: Final = datetime.timedelta(days=3650)
_LIFE: Final = datetime.timedelta(days=365)
_RENEW_BEFORE: Final = datetime.timedelta(days=30)
# Clocks of virtual machines that wake up lag behind; a certificate from the future would be refused.
_BACKDATE: Final = datetime.timedelta(hours=1)


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
        folder.leaf(ca, "server", names=tuple(dict.fromkeys((*LOOPBACK_NAMES, *names))))
        admin = folder.leaf(ca, "admin")
        return cls(
            directory,
            ca_certificate=_pem(ca.certificate),
            client_certificate=_pem(admin.certificate),
            client_key=_key_pem(admin.key),
            token=folder.token(),
        )

    def server_context(self) -> ssl.SSLContext:
        """TLS for the listening socket; a client may show a certificate of this CA, and no other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.directory / "server.crt", self.directory / "server.key")
        context.load_verify_locations(cadata=self.ca_certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def kubeconfig(url: str, credentials: ClusterCredentials, *, name: str = "kuberth") -> str:
    """A kubeconfig for the admin, complete in itself."""

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return yaml.safe_dump(
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
        },
        sort_keys=False,
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class _Folder:
    """The files, each read if it is still good and made anew if not."""

    def __init__(self, directory: Path, now: datetime.datetime) -> None:
        self._directory = directory
        self._now = now

    def authority(self) -> _Pair:
        pair = self._read("ca")
        # What it signs must not outlive it.
        if pair is not None and self._is_good(pair.certificate, _LIFE + _RENEW_BEFORE):
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kuberth-ca")])
        certificate = (
            self._builder(subject, subject, key.public_key(), _CA_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return self._write("ca", _Pair(certificate, key))

    def leaf(self, ca: _Pair, name: str, *, names: Sequence[str] = ()) -> _Pair:
        """The server's certificate if it has names, the admin's if not."""
        pair = self._read(name)
        if (
            pair is not None
            and self._is_good(pair.certificate, _RENEW_BEFORE)
            and _signed_by(pair.certificate, ca.certificate)
            and {str(_general_name(text).value) for text in names} <= _names_of(pair.certificate)
        ):
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        if names:
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kuberth-apiserver")])
            purpose = ExtendedKeyUsageOID.SERVER_AUTH
        else:
            subject = x509.Name(
                [
                    x509.NameAttribute(NameOID.ORGANIZATION_NAME, ADMIN_GROUP),
                    x509.NameAttribute(NameOID.COMMON_NAME, ADMIN),
                ]
            )
            purpose = ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            self._builder(subject, ca.certificate.subject, key.public_key(), _LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(text) for text in names]), critical=False
            )
        return self._write(name, _Pair(builder.sign(ca.key, hashes.SHA256()), key))

    def token(self) -> str:
        path = self._directory / "token"
        try:
            token = path.read_text(encoding="ascii").strip()
            path.chmod(0o600)
        except (OSError, UnicodeDecodeError):
            token = ""
        if len(token) < 32:
            token = secrets.token_urlsafe(32)
            _write_privately(path, token.encode())
        return token

    def _builder(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        life: datetime.timedelta,
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _BACKDATE)
            .not_valid_after(self._now + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )

    def _is_good(self, certificate: x509.Certificate, left: datetime.timedelta) -> bool:
        return (
            certificate.not_valid_before_utc <= self._now
            and self._now + left < certificate.not_valid_after_utc
        )

    def _read(self, name: str) -> _Pair | None:
        certificate_path, key_path = (self._directory / f"{name}.{end}" for end in ("crt", "key"))
        if not certificate_path.exists() and not key_path.exists():
            return None
        try:
            certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
            key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
            # A copy or a backup may have widened them.
            certificate_path.chmod(0o600)
            key_path.chmod(0o600)
        except (OSError, ValueError, TypeError) as error:
            logger.warning("%s cannot be used and is made anew: %s", certificate_path, error)
            return None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            logger.warning("%s does not belong to %s; both are made anew", key_path, certificate_path)
            return None
        return _Pair(certificate, key)

    def _write(self, name: str, pair: _Pair) -> _Pair:
        # A crash between the two leaves a pair that does not match, which the next start makes anew.
        _write_privately(self._directory / f"{name}.key", _key_pem(pair.key))
        _write_privately(self._directory / f"{name}.crt", _pem(pair.certificate))
        return pair


def _write_privately(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:  # whatever is wrong with it, it is made anew
        return False
    return True


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names}


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
