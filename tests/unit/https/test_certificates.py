from __future__ import annotations

import asyncio
import datetime
import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from kuberth.errors import ServingError
from kuberth.https.certificates import CertificateFiles, CertificateInMemory, SelfSigned
from kuberth.https.issuing import issue
from kuberth.https.messages import Request, Response
from tests.unit.https.harness import Authority, fetch, listening, run


async def presented(port: int) -> x509.Certificate:
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=5)
    return x509.load_pem_x509_certificate(pem.encode())


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def test_self_signed_names_the_host_for_a_year() -> None:
    certificate = issue("host.example", names=["host.example", "10.1.2.3", "::1"]).certificate
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["host.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.1.2.3", "::1"]
    assert common_name(certificate) == "host.example"
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=364) < left <= datetime.timedelta(days=365)


def test_a_very_long_host_name() -> None:
    name = ".".join(["x" * 60] * 3)
    certificate = issue(name, names=[name]).certificate
    assert common_name(certificate) == name[:64]


def test_a_client_that_trusts_the_self_signed_certificate_is_served() -> None:
    async def main() -> None:
        async with listening(certificates=SelfSigned("extra.example")) as serving:
            certificate = await presented(serving.port)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert "extra.example" in names.get_values_for_type(x509.DNSName)
            pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", serving.port), timeout=5)
            context = ssl.create_default_context(cadata=pem)
            assert (await fetch(serving.port, "/page", context=context, host="localhost")).status == 200

    run(main)


def test_the_key_is_never_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[Path]] = []
    real = ssl.SSLContext.load_cert_chain

    def noting(self: ssl.SSLContext, certfile: Path, keyfile: Path, password: object = None) -> None:
        found.append(list(tmp_path.iterdir()))
        real(self, certfile, keyfile)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noting)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    SelfSigned().context()
    pair = issue("host.example", names=["host.example"])
    CertificateInMemory(pair.certificate_pem, pair.key_pem, client_ca=pair.certificate_pem).context()
    assert found == [[], []]


def test_where_no_file_can_be_in_memory_the_key_does_not_stay_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    modes: list[int] = []
    real = ssl.SSLContext.load_cert_chain

    def noting(self: ssl.SSLContext, certfile: Path, keyfile: Path, password: object = None) -> None:
        modes.extend(stat.S_IMODE(os.stat(path).st_mode) for path in (keyfile.parent, keyfile))
        real(self, certfile, keyfile)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noting)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    SelfSigned().context()
    assert [oct(mode) for mode in modes] == ["0o700", "0o600"]
    assert list(tmp_path.iterdir()) == []


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    async def main() -> None:
        authority = Authority(tmp_path)
        files = authority.issue("first", stem="tls")
        async with listening(certificates=CertificateFiles(*files)) as serving:
            assert common_name(await presented(serving.port)) == "first"
            assert common_name(await presented(serving.port)) == "first"
            authority.issue("second", stem="tls")
            assert common_name(await presented(serving.port)) == "second"
            trusted = authority.trusted()
            assert (await fetch(serving.port, "/page", context=trusted, host="localhost")).text == "/page"
            authority.issue("third", stem="tls")
            assert common_name(await presented(serving.port)) == "third"

    run(main)


def test_halfway_through_a_rotation_the_old_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        authority = Authority(tmp_path)
        files = authority.issue("first", stem="tls")
        new = authority.issue("second", stem="new")
        async with listening(certificates=CertificateFiles(*files)) as serving:
            files[0].write_bytes(new[0].read_bytes())
            assert common_name(await presented(serving.port)) == "first"
            assert "stays in use" in caplog.text
            files[1].write_bytes(new[1].read_bytes())
            assert common_name(await presented(serving.port)) == "second"
            files[1].unlink()
            assert common_name(await presented(serving.port)) == "second"

    run(main)


def test_a_client_certificate_is_still_asked_for_after_a_rotation(tmp_path: Path) -> None:
    async def serve(request: Request) -> Response:
        return Response.text(str(request.certificate))

    async def main() -> None:
        authority = Authority(tmp_path)
        files = authority.issue("first", stem="tls")
        files_and_ca = CertificateFiles(*files, client_ca=authority.path)
        own = authority.trusted(authority.issue("jane", client=True))
        async with listening({"/page": serve}, certificates=files_and_ca) as serving:
            for name in ("first", "second"):
                authority.issue(name, stem="tls")
                assert "jane" in (await fetch(serving.port, "/page", context=own, host="localhost")).text
            stranger = Authority(tmp_path, "stranger").issue("eve", client=True)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await fetch(serving.port, "/page", context=authority.trusted(stranger), host="localhost")

    run(main)


@pytest.mark.parametrize(
    "certificate, key, problem",
    [
        ("missing.crt", "tls.key", "No such file"),
        ("tls.crt", "missing.key", "No such file"),
        ("tls.crt", "other.key", "KEY_VALUES_MISMATCH"),
        ("empty", "tls.key", "are not a certificate and its key"),
        ("tls.crt", "locked.key", "encrypted"),
    ],
)
def test_files_that_cannot_be_served_with(tmp_path: Path, certificate: str, key: str, problem: str) -> None:
    authority = Authority(tmp_path)
    authority.issue("one", stem="tls")
    authority.issue("two", stem="other")
    (tmp_path / "empty").touch()
    (tmp_path / "locked.key").write_text(LOCKED)
    with pytest.raises(ServingError, match=problem) as caught:
        CertificateFiles(tmp_path / certificate, tmp_path / key).context()
    assert str(caught.value).endswith("check --tls-cert-file and --tls-private-key-file")


def test_a_client_ca_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="client CA"):
        SelfSigned(client_ca=tmp_path / "missing").context()


LOCKED = """-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,00000000000000000000000000000000

AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
-----END EC PRIVATE KEY-----
"""
