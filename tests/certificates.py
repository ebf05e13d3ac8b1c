"""Certificate authorities and certificates for real TLS on loopback."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme

DAY = datetime.timedelta(days=1)
LOOPBACK = ("127.0.0.1", "localhost", "kubernetes")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM texts."""

    certificate: str
    key: str

    def write(self, folder: Path, stem: str) -> PairFiles:
        files = PairFiles(folder / f"{stem}.crt", folder / f"{stem}.key")
        files.certificate.write_text(self.certificate, encoding="ascii")
        files.key.write_text(self.key, encoding="ascii")
        return files


@dataclass(frozen=True)
class PairFiles:
    """The same, as files."""

    certificate: Path
    key: Path


class Authority:
    def __init__(self) -> None:
        self._authority = trustme.CA()

    @property
    def pem(self) -> str:
        return self._authority.cert_pem.bytes().decode()

    def issue(
        self,
        common_name: str,
        *,
        identities: tuple[str, ...] = LOOPBACK,
        group: str | None = None,
        starts: datetime.timedelta = -DAY,
        ends: datetime.timedelta = DAY,
    ) -> Pair:
        """For servers of these names and addresses, and for a client of this name in this group."""
        now = datetime.datetime.now(datetime.UTC)
        issued = self._authority.issue_cert(
            *identities,
            common_name=common_name,
            organization_name=group,
            not_before=now + starts,
            not_after=now + ends,
        )
        return Pair(issued.cert_chain_pems[0].bytes().decode(), issued.private_key_pem.bytes().decode())


@cache
def authority(name: str = "cluster") -> Authority:
    """One for each name, made once."""
    return Authority()


@cache
def server_pair() -> Pair:
    return authority().issue("server")


@cache
def client_pair(name: str = "kuberth") -> Pair:
    return authority().issue(name)
