"""A running listener, a client that sees every byte, and certificates to reach it with."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kuberth.https.certificates import Certificates, SelfSigned
from kuberth.https.connection_limit import Limits
from kuberth.https.listener import AddressFlags, Listener
from kuberth.https.messages import Request, Response, User

T = TypeVar("T")
LIMIT_SECONDS = 20
SHARED = SelfSigned()


class Site:
    """Implements `HttpService`: pages by path; /livez is open, and a token is a name."""

    def __init__(self, pages: Mapping[str, Callable[[Request], Awaitable[Response]]] | None = None) -> None:
        self._pages = pages or {}

    async def answer(self, request: Request) -> Response:
        if token := request.headers.get("authorization"):
            request.identify(User.authenticated(token))
        if page := self._pages.get(request.path):
            return await page(request)
        return Response.text(request.path, status=200 if request.path.startswith("/") else 404)

    def refuse(self, code: int, message: str) -> Response:
        return Response.text(message, status=code)

    def is_open(self, request: Request) -> bool:
        return request.path == "/livez"


def listening(
    pages: Mapping[str, Callable[[Request], Awaitable[Response]]] | None = None,
    *,
    limits: Limits | None = None,
    certificates: Certificates = SHARED,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Listener:
    return Listener(
        Site(pages),
        certificates=certificates,
        host=host,
        port=port,
        flags=AddressFlags("--where", "--which"),
        limits=limits or Limits(),
    )


async def open_tls(
    port: int, *, source: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting(), local_addr=(source, 0))


async def close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def cut(reader: asyncio.StreamReader) -> None:
    """Returns once the server closed the connection."""
    try:
        while await reader.read(4096):
            pass
    except OSError:
        pass


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@cache  # reading the certificates of the system takes longer than a handshake
def trusting() -> ssl.SSLContext:
    """A client that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def fetch(
    port: int,
    path: str,
    *,
    token: str = "",
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> Answer:
    """One request over a connection of its own, in a thread: the server runs in this loop."""

    def ask() -> Answer:
        connection = http.client.HTTPSConnection(host, port, timeout=10, context=context or trusting())
        try:
            sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
            connection.request(method, path, headers=sent)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(LIMIT_SECONDS):
            return await main()

    return asyncio.run(limited())


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass
class Authority:
    """A CA that signs certificates for servers and clients."""

    folder: Path
    name: str = "ca"
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        self.certificate = (
            self._builder(self.subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = self.folder / f"{self.name}.crt"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, groups: tuple[str, ...] = (), client: bool = False, stem: str = ""
    ) -> tuple[Path, Path]:
        """Certificate and key files; `stem` is their name, so that they can be issued again."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        if name:
            attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        certificate = (
            self._builder(x509.Name(attributes), key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        paths = self.folder / f"{stem or name}.crt", self.folder / f"{stem or name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def trusted(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """A client that trusts this CA, perhaps with a certificate of its own."""
        context = ssl.create_default_context(cafile=str(self.path))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(issuer_key, critical=False)  # Python 3.13 and newer ask for it
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )
