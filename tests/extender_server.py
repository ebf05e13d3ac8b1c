"""A real extender on loopback, HTTP or HTTPS, that answers by a script and notes what it was asked.

In: for each verb a function from the request's JSON to the answer's, or a `Raw` answer of any kind. Out: the
requests, in the order they came. It serves any scheduler, one of another program, too.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.certificates import Pair

HELD_SECONDS = 60.0
"""A safety net for answers that a test holds back and forgets."""


class Asked(NamedTuple):
    verb: str
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Raw:
    """An answer as it goes over the wire."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False
    """Go on sending until the other side has had enough."""
    cut: bool = False
    """Close the connection instead."""


Answer = Callable[[Any], Any]
Script = Mapping[str, Answer | Raw]


class ExtenderServer:
    """Serves until the block of `serving` ends."""

    def __init__(self, script: Script) -> None:
        self.script = dict(script)
        self.asked: list[Asked] = []
        self.url = ""
        self.at_once = 0
        self.most_at_once = 0
        """How many questions were under way at the same time."""
        self.arrived = threading.Condition()
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        """Answer nothing until `release`."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def verbs(self) -> list[str]:
        return [asked.verb for asked in self.asked]

    def bodies(self, verb: str) -> list[Any]:
        return [asked.body for asked in self.asked if asked.verb == verb]

    def answer(self, asked: Asked) -> Raw:
        with self.arrived:
            self.asked.append(asked)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.arrived.notify_all()
        try:
            self._open.wait(HELD_SECONDS)
            scripted = self.script.get(asked.verb, Raw(status=404))
            if callable(scripted):
                scripted = scripted(asked.body)
            if isinstance(scripted, Raw):
                return scripted
            return Raw(json.dumps(scripted).encode(), headers={"Content-Type": "application/json"})
        finally:
            with self.arrived:
                self.at_once -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave in the middle are what some tests are about."""


@contextmanager
def serving(script: Script, *, pair: Pair | None = None, client_ca: str = "") -> Iterator[ExtenderServer]:
    """With `pair` it speaks TLS, with `client_ca` only to clients with a certificate of that authority."""
    extender = ExtenderServer(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            verb = self.path.rpartition("/")[2]
            raw = extender.answer(Asked(verb, json.loads(body), dict(self.headers)))
            if raw.cut:
                self.close_connection = True
                return
            self.send_response(raw.status)
            for name, value in raw.headers.items():
                self.send_header(name, value)
            if raw.endless:
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                while True:
                    self.wfile.write(raw.body)
            self.send_header("Content-Length", str(len(raw.body)))
            self.end_headers()
            self.wfile.write(raw.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's name
            """Silence."""

    server = _Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if pair is not None:
        scheme = "https"
        context = _server_context(pair, client_ca)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    extender.url = f"{scheme}://127.0.0.1:{server.server_port}/extender"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield extender
    finally:
        extender.release()
        server.shutdown()
        server.server_close()
        thread.join()


def _server_context(pair: Pair, client_ca: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        files = pair.write(Path(folder), "server")
        context.load_cert_chain(files.certificate, files.key)
    if client_ca:
        context.load_verify_locations(cadata=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


# Answers that many scripts give


def node_names(body: Any) -> list[str]:
    """The nodes that were asked about, in either form."""
    if body["NodeNames"] is not None:
        return list(body["NodeNames"])
    return [item["metadata"]["name"] for item in body["Nodes"]["items"]]


def only(*names: str, why: str = "not this one", unresolvable: bool = False) -> Answer:
    """A filter that leaves these nodes, in the form it was asked in."""

    def answer(body: Any) -> Any:
        left = [name for name in node_names(body) if name in names]
        failed = {name: why for name in node_names(body) if name not in names}
        found: dict[str, Any] = {
            "Nodes": None,
            "NodeNames": None,
            "FailedNodes": None if unresolvable else failed,
            "FailedAndUnresolvableNodes": failed if unresolvable else None,
            "Error": "",
        }
        if body["NodeNames"] is not None:
            found["NodeNames"] = left
        else:
            items = [item for item in body["Nodes"]["items"] if item["metadata"]["name"] in left]
            found["Nodes"] = {"metadata": {}, "items": items}
        return found

    return answer


def everyone(body: Any) -> Any:
    """A filter that rejects no node."""
    return only(*node_names(body))(body)


def scores(**by_name: int) -> Answer:
    """A prioritizer; nodes that are not named get 0."""
    return lambda body: [{"Host": name, "Score": by_name.get(name, 0)} for name in node_names(body)]
