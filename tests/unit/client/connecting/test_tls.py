from __future__ import annotations

import datetime
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kuberth.api.core import Pod
from kuberth.client.connecting.dialing import TlsContexts
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, Secret, TlsSettings
from kuberth.client.identity.credentials import ANONYMOUS
from kuberth.errors import ConfigError, UnreachableError
from kuberth.testing import FakeClock
from tests.certificates import Pair, authority, client_pair, server_pair
from tests.unit.client.https_server import Asked, Reply, run, serve, server_context

DAY = datetime.timedelta(days=1)
SOURCE = "the test's kubeconfig"


async def pod(_asked: Asked, reply: Reply) -> None:
    certificate = reply.writer.get_extra_info("peercert")
    name = dict(part[0] for part in certificate["subject"])["commonName"] if certificate else "no certificate"
    await reply.send({"metadata": {"name": name}})


async def name_seen(server_tls: TlsSettings, **options: object) -> str:
    """The user that the server sees."""
    async with serve(pod, **options) as server:  # type: ignore[arg-type]  # a table's keywords
        api = HttpApi(server.config(tls=server_tls))
        try:
            return (await api.get(Pod, "p", namespace="d")).metadata.name
        finally:
            await api.close()


def trusting(**changes: object) -> TlsSettings:
    return TlsSettings(**{"ca_data": authority().pem, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("tls12", [False, True], ids=["TLS 1.3", "TLS 1.2"])
def test_a_client_certificate_identifies_the_user(tls12: bool) -> None:
    pair = client_pair()
    tls = trusting(certificate_data=pair.certificate, key_data=Secret(pair.key))
    assert run(lambda: name_seen(tls, client_ca=authority().pem, tls12=tls12)) == "kuberth"


PROBLEMS = {
    "wrong CA": (TlsSettings(ca_data=authority("other").pem), {}, ("CA did not sign", SOURCE)),
    "system CAs": (TlsSettings(), {}, ("CA did not sign", SOURCE)),
    "expired": (trusting(), {"pair": authority().issue("old", ends=-DAY / 2)}, ("expired", "clock")),
    "not yet valid": (
        trusting(),
        {"pair": authority().issue("new", starts=DAY / 2)},
        ("not valid yet", "clock"),
    ),
    "wrong name": (
        trusting(server_name="elsewhere"),
        {},
        ("not for 'elsewhere'", "tls-server-name"),
    ),
    "wrong address": (
        trusting(),
        {"pair": authority().issue("far", identities=("10.0.0.1", "localhost", "kubernetes"))},
        ("not for '127.0.0.1'", "tls-server-name"),
    ),
}


@pytest.mark.parametrize(("tls", "options", "parts"), PROBLEMS.values(), ids=PROBLEMS)
def test_every_failure_says_what_to_do_in_one_line(
    tls: TlsSettings, options: dict[str, object], parts: tuple[str, ...]
) -> None:
    async def main() -> str:
        async with serve(pod, **options) as server:  # type: ignore[arg-type]  # a table's keywords
            api = HttpApi(server.config(server=f"https://127.0.0.1:{server.port}", tls=tls))
            try:
                with pytest.raises(UnreachableError) as caught:
                    await api.get(Pod, "p", namespace="d")
                return str(caught.value)
            finally:
                await api.close()

    message = run(main)
    assert message.startswith("get Pod d/p: the API server at https://127.0.0.1:")
    assert all(part in message for part in parts), message
    assert "\n" not in message


@contextmanager
def one_connection(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A blocking server for one connection, on a thread: asyncio's own swallows TLS alerts."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(5)
            answer(connection)

    thread = threading.Thread(target=accept, name="one connection")
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        thread.join(5)
        listening.close()


def refusal_of(answer: Callable[[socket.socket], None]) -> str:
    async def main() -> str:
        with one_connection(answer) as port:
            api = HttpApi(ClientConfig(server=f"https://127.0.0.1:{port}", source=SOURCE, tls=trusting()))
            with pytest.raises(UnreachableError) as caught:
                await api.get(Pod, "p", namespace="d")
            await api.close()
            return str(caught.value)

    return run(main)


@pytest.mark.parametrize("tls12", [False, True], ids=["TLS 1.3", "TLS 1.2"])
def test_a_server_that_wants_a_client_certificate(tls12: bool) -> None:
    def answer(connection: socket.socket) -> None:
        context = server_context(server_pair(), authority().pem, tls12=tls12)
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    message = refusal_of(answer)
    # With TLS 1.3 the refusal comes when the request is on its way, and may be lost with the connection.
    assert "refused our client certificate" in message or "want a client certificate?" in message


def test_a_server_that_speaks_no_tls() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert "does not speak TLS; check scheme and port" in refusal_of(answer)


def test_a_server_that_hangs_up() -> None:
    assert "closed the connection" in refusal_of(lambda connection: None)


def test_another_name_can_be_asked_for() -> None:
    far = authority().issue("far", identities=("10.0.0.1", "kubernetes"))
    assert run(lambda: name_seen(trusting(server_name="kubernetes"), pair=far)) == "no certificate"


def test_verification_can_be_skipped() -> None:
    stranger = authority("stranger").issue("s", identities=("10.0.0.1",))
    assert run(lambda: name_seen(TlsSettings(insecure=True), pair=stranger)) == "no certificate"


def files(folder: Path, pair: Pair) -> TlsSettings:
    for name, text in (("ca", authority().pem), ("crt", pair.certificate), ("key", pair.key)):
        (folder / name).write_text(text, encoding="utf-8")
    paths = [str(folder / name) for name in ("ca", "crt", "key")]
    return TlsSettings(ca_file=paths[0], certificate_file=paths[1], key_file=paths[2])


def test_changed_files_are_used_for_the_next_connection(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with serve(pod, client_ca=authority().pem) as server:
            api = HttpApi(server.config(tls=files(tmp_path, client_pair("before"))), clock=clock)

            async def seen() -> str:
                return (await api.get(Pod, "p", namespace="d")).metadata.name

            assert await seen() == "before"
            files(tmp_path, client_pair("after"))
            assert await seen() == "before"
            clock.advance(10)
            assert await seen() == "after"
            clock.advance(10)
            assert await seen() == "after"
            assert server.connections == 2
            await api.close()

    run(main)


def test_half_written_files_are_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    contexts = TlsContexts(files(tmp_path, client_pair("before")), clock, source=SOURCE)
    before = contexts.context
    (tmp_path / "crt").write_text(client_pair("after").certificate, encoding="utf-8")
    clock.advance(10)
    contexts.refresh(ANONYMOUS)
    assert contexts.context is before
    assert "keeping the old ones" in caplog.text
    (tmp_path / "key").write_text(client_pair("after").key, encoding="utf-8")
    clock.advance(10)
    contexts.refresh(ANONYMOUS)
    assert contexts.context is not before


def locked_key() -> Secret:
    key = load_pem_private_key(client_pair().key.encode(), password=None)
    return Secret(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        ).decode()
    )


@pytest.mark.parametrize(
    ("tls", "part"),
    [
        (TlsSettings(ca_data="nonsense"), "certificate-authority-data contains no certificate authority"),
        (TlsSettings(ca_file="/nowhere/ca"), "/nowhere/ca cannot be read"),
        (TlsSettings(certificate_data="nonsense", key_data=Secret("s3cret")), "a matching pair"),
        (
            TlsSettings(certificate_data=client_pair().certificate, key_data=Secret(client_pair("x").key)),
            "a matching pair",
        ),
        (
            TlsSettings(certificate_data=client_pair().certificate, key_data=locked_key()),
            "without a password",
        ),
    ],
    ids=["no CA", "no CA file", "no pair", "not a pair", "locked key"],
)
def test_what_cannot_be_used_is_found_before_the_first_request(tls: TlsSettings, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        TlsContexts(tls, FakeClock(), source=SOURCE)
    assert SOURCE in str(caught.value)
    assert "s3cret" not in str(caught.value)
