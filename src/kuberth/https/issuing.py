"""Issues certificates: for an authority, a server or a client, signed by an authority or by themselves.

In: names and the signer. Out: a `KeyPair`, which also checks its names and the authority that signed it.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

YEAR: Final = datetime.timedelta(days=365)
# The clock of a resumed virtual machine lags behind; it would refuse a certificate from the future.
_BACKDATE: Final = datetime.timedelta(hours=1)
_LONGEST_COMMON_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class KeyPair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def from_pem(cls, certificate_pem: bytes, key_pem: bytes) -> KeyPair:
        """Parse a pair; raises ValueError or TypeError for anything else."""
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the key does not belong to the certificate")
        return cls(certificate, key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def is_signed_by(self, authority: KeyPair) -> bool:
        try:
            self.certificate.verify_directly_issued_by(authority.certificate)
        except Exception:  # any failure means that the signature does not hold
            return False
        return True

    def covers(self, names: Sequence[str]) -> bool:
        try:
            extension = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return not names
        return {_general_name(name) for name in names} <= set(extension.value)


def issue(
    common_name: str,
    *,
    names: Sequence[str] = (),
    organization: str = "",
    signer: KeyPair | None = None,
    is_authority: bool = False,
    now: datetime.datetime | None = None,
    life: datetime.timedelta = YEAR,
) -> KeyPair:
    """Issue a server certificate if there are `names`, else a client's; self-signed without a signer."""
    now = now or datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    public_key = key.public_key()
    subject = _subject(common_name[:_LONGEST_COMMON_NAME], organization)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
    )
    if signer or is_authority:
        # A client that trusts a self-signed certificate treats it as its authority, which this would deny.
        builder = builder.add_extension(_usage(signs_certificates=is_authority), critical=True)
    if signer:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
    if not is_authority:
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if names:
        alternatives = [_general_name(name) for name in dict.fromkeys(names)]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return KeyPair(builder.sign(signer.key if signer else key, hashes.SHA256()), key)


def _subject(common_name: str, organization: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


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


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
