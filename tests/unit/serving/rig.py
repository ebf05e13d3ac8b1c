"""A running server, certificates to reach it with, and an API that answers reviews."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kuberth.api.authentication import TokenReview, TokenReviewStatus, UserInfo
from kuberth.api.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from kuberth.serving.messages import Handler, Request, Response
from kuberth.testing import FakeClock
from kuberth.testing.memory_api import MemoryApi

T = TypeVar("T")
LIMIT_SECONDS = 20


class Reviewer(MemoryApi):
    """Knows tokens and rights; other kinds go to the memory cluster as ever."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[str, UserInfo] = {
            "good": UserInfo(username="prometheus", uid="u1", groups=("monitoring",), extra={"k": ("v",)}),
            "boss": UserInfo(username="admin", groups=("system:masters",)),
        }
        self.rights: dict[tuple[str, str], set[str]] = {("prometheus", "get"): {"/metrics"}}
        self.reviews: list[TokenReview | SubjectAccessReview] = []
        self.fault: Callable[[str], Coroutine[Any, Any, None]] | None = None

    async def create(self, obj: T) -> T:
        if not isinstance(obj, TokenReview | SubjectAccessReview):
            return await super().create(obj)
        self.reviews.append(obj)
        if self.fault is not None:
            await self.fault(obj.kind)
        status = self._token(obj) if isinstance(obj, TokenReview) else self._access(obj)
        return msgspec.structs.replace(obj, status=status)

    def _token(self, review: TokenReview) -> TokenReviewStatus:
        user = self.tokens.get(review.spec.token)
        if user is None:
            return TokenReviewStatus(error="invalid bearer token")
        return TokenReviewStatus(authenticated=True, user=user)

    def _access(self, review: SubjectAccessReview) -> SubjectAccessReviewStatus:
        asked = review.spec.non_resource_attributes
        assert asked is not None
        allowed = asked.path in self.rights.get((review.spec.user, asked.verb), set())
        return SubjectAccessReviewStatus(allowed=allowed, reason="" if allowed else "no rule")

    @property
    def kinds(self) -> list[str]:
        return [review.kind for review in self.reviews]


class Open:
    """Implements `Access`: everybody in."""

    async def refusal(self, request: Request) -> Response | None:
        return None


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


def page(text: str) -> Handler:
    return lambda _request: Response.text(text)


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
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )


__all__ = ["Answer", "Authority", "FakeClock", "Open", "Reviewer", "fetch", "page", "run", "trusting"]
