"""`python -m benchmarks.client`: what one request over TLS costs this process.

In: a tiny HTTPS server on loopback, in a process of its own, that answers at once. Out: a table of the
CPU microseconds a GET and a bind of one pod cost, alone and with many at a time; the bare connection
(bytes out, answer in, nothing decoded) is what the rest is to be compared with.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import ipaddress
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final

import httptools
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import encode
from kuberth.client.connecting.connection import RequestConnection
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, Secret, TlsSettings
from kuberth.client.identity.credentials import ANONYMOUS
from kuberth.clock import SystemClock
from kuberth.testing import make_pod

WARM_UP: Final = 200
STATUS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Server(asyncio.Protocol):
    """Answers a GET with a pod and anything else with a Status, and reads nothing it need not."""

    pod = encode(make_pod("web", cpu="500m", labels={"app": "web"}))

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        body = self.pod if self._parser.get_method() == b"GET" else STATUS
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


def _serve(certificate: str, pipe: Pipe) -> None:
    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def _certificate(path: Path) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "benchmark")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate + private)
    return certificate.decode()


async def _cost(ask: Callable[[], Awaitable[object]], number: int, *, at_a_time: int) -> float:
    """CPU microseconds of this process per request."""

    async def worker(times: int) -> None:
        for _ in range(times):
            await ask()

    async def all_of(total: int) -> None:
        async with asyncio.TaskGroup() as group:
            for each in range(at_a_time):
                group.create_task(worker(total // at_a_time), name=f"asker {each}")

    await all_of(max(WARM_UP, at_a_time))
    before = time.process_time_ns()
    await all_of(number)
    return (time.process_time_ns() - before) / 1000 / (number // at_a_time * at_a_time)


async def _measure(config: ClientConfig, number: int, at_a_time: int) -> None:
    api = HttpApi(config, qps=-1, max_connections=at_a_time)
    binding = Binding(
        metadata=ObjectMeta(namespace="default", name="web", uid="u"),
        target=ObjectReference(kind="Node", name="n1"),
    )
    dialer = Dialer(config, SystemClock())
    bare = [
        await dialer.dial(ANONYMOUS, partial(RequestConnection, lambda _: None)) for _ in range(at_a_time)
    ]
    raw = b"GET /api/v1/namespaces/default/pods/web HTTP/1.1\r\nHost: x\r\n\r\n"

    async def ask_bare() -> None:
        connection = bare.pop()
        await connection.start(raw, cap=1 << 20)
        bare.append(connection)

    rows: list[tuple[str, Callable[[], Awaitable[object]], int]] = [
        ("bare connection", ask_bare, 1),
        ("get pod", lambda: api.get(Pod, "web", namespace="default"), 1),
        ("bind pod", lambda: api.bind(binding), 1),
        (f"bare, {at_a_time} at a time", ask_bare, at_a_time),
        (f"get pod, {at_a_time} at a time", lambda: api.get(Pod, "web", namespace="default"), at_a_time),
        (f"bind pod, {at_a_time} at a time", lambda: api.bind(binding), at_a_time),
    ]
    first = 0.0
    for name, ask, together in rows:
        cost = await _cost(ask, number, at_a_time=together)
        first = first or cost
        print(f"{name:28} {cost:8.1f} µs {cost / first:6.2f}")
    for connection in bare:
        connection.abort()
        await connection.closed
    await api.close()


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        return asyncio.new_event_loop
    import uvloop  # type: ignore[import-not-found,unused-ignore]  # optional, and not installed everywhere

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--at-a-time", type=int, default=24)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.pem")
        ca = _certificate(path)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=_serve, args=(str(path), theirs))
        server.start()
        try:
            config = ClientConfig(
                server=f"https://127.0.0.1:{ours.recv()}", tls=TlsSettings(ca_data=ca), token=Secret("t")
            )
            with asyncio.Runner(loop_factory=_loop_factory(options.loop)) as runner:
                runner.run(_measure(config, options.requests, options.at_a_time))
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
