"""The authority of a control plane in a folder of its own, and the key of its service account tokens."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.certificates import Authority, PairFiles


class AuthorityFolder:
    """An authority whose certificates are files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = Authority()
        self.file = folder / "ca.crt"
        self.file.write_text(self._authority.pem, encoding="ascii")

    def issue(self, common_name: str) -> PairFiles:
        """A certificate for servers on loopback, and for clients of this name."""
        return self._authority.issue(common_name).write(self._folder, common_name.replace(":", "-"))


class ServiceAccountSigner:
    """The key with which the API server signs and checks service account tokens."""

    def __init__(self, file: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.file = file
        file.write_bytes(
            self._key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )

    def sign(self, claims: dict[str, Any]) -> str:
        """A token (JWT, RS256) with these claims."""
        parts = [_base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims)]
        signed = ".".join(parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64url(signature)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
