"""Whatever a client sends through real HTTPS: an answer in bounded time, never a failure of the server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberth.local.apiserver.http.negotiation import BODY_TYPES, PATCH_TYPES
from tests.unit.local.apiserver.harness import (
    Answer,
    ServerHarness,
    as_bytes,
    head,
    labelled_pod,
    read_answer,
    serving,
)

T = TypeVar("T")

SETTINGS = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
REQUEST_SECONDS = 10.0


class Running:
    """A server in a thread of its own: hypothesis calls its tests without a loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._serving = serving()
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.harness: ServerHarness = self.run(self._serving.__aenter__())
        self.run(self.harness.core.create("pods", labelled_pod("web"), namespace="default"))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(REQUEST_SECONDS)

    def fetch(self, method: str, target: str, body: Any = None, **headers: str) -> Answer:
        return self.run(self._fetch(method, target, as_bytes(body), headers))

    async def _fetch(self, method: str, target: str, body: bytes, headers: dict[str, str]) -> Answer:
        """On one connection for as long as the server keeps it: handshakes are what costs time here."""
        if self._connection is None:
            self._connection = await self.harness.connect()
        reader, writer = self._connection
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        writer.write(head(method, target, self.harness.headers(named), body) + body)
        answer = await read_answer(reader, method=method)
        if answer.headers.get("connection") == "close":
            writer.close()
            self._connection = None
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._loop.call_soon_threadsafe(self._connection[1].close)
        self.run(self._serving.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(REQUEST_SECONDS)
        self._loop.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.close()


def check(answer: Answer, *, bodiless: bool = False) -> None:
    assert 200 <= answer.status < 500, answer.body[:2000]
    if answer.status >= 400 and not bodiless:
        assert (answer.json()["kind"], answer.json()["code"]) == ("Status", answer.status)


def words(text: str) -> list[str]:
    return text.split()


WORDS = st.sampled_from(
    words(
        "api apis v1 namespaces default pods web status binding eviction scale nodes apps deployments events "
        "openapi "
        "v2 v3 version healthz readyz watch authorization.k8s.io selfsubjectaccessreviews events.k8s.io "
        "customresourcedefinitions apiextensions.k8s.io .. . % %2f %00 %ff"
    )
)
SEGMENTS = st.one_of(WORDS, st.text(max_size=12).map(lambda text: quote(text, safe="")))
PATHS = st.lists(SEGMENTS, max_size=8).map(lambda segments: "/" + "/".join(segments))
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
JSON_TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(
                st.sampled_from(
                    words(
                        "apiVersion kind metadata name namespace labels annotations spec status containers "
                        "finalizers ownerReferences uid resourceVersion schedulingGates nodeName op path "
                        "value image from $patch $retainKeys $setElementOrder/containers target replicas "
                        "generateName $deleteFromPrimitiveList/finalizers "
                        "deleteOptions preconditions propagationPolicy gracePeriodSeconds "
                        "resources requests cpu tolerations affinity taints creationTimestamp managedFields"
                    )
                ),
                st.text(max_size=6),
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)
PARAMETERS = st.dictionaries(
    st.sampled_from(
        words(
            "limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector dryRun "
            "fieldManager force "
            "fieldValidation pretty includeObject gracePeriodSeconds propagationPolicy orphanDependents "
            "timeoutSeconds allowWatchBookmarks sendInitialEvents"
        )
    ),
    st.one_of(
        st.sampled_from(
            words("0 1 -1 true false All Strict Warn Exact NotOlderThan Background Object a=b a!=b")
        ),
        st.sampled_from(["a in (b,c)", "!a", "metadata.name=web", "spec.nodeName=", "99999999999999999999"]),
        st.text(max_size=12),
    ),
    max_size=5,
)


def query(parameters: dict[str, str]) -> str:
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())


@given(method=METHODS, path=PATHS)
@SETTINGS
def test_paths(running: Running, method: str, path: str) -> None:
    check(running.fetch(method, path, b"{}" if method != "GET" else None), bodiless=method == "HEAD")


@given(parameters=PARAMETERS, raw=st.binary(max_size=20))
@SETTINGS
def test_queries(running: Running, parameters: dict[str, str], raw: bytes) -> None:
    for path in ("/api/v1/pods", "/api/v1/namespaces/default/pods/web"):
        check(running.fetch("GET", f"{path}?{query(parameters)}&{quote(raw)}"))
    check(running.fetch("DELETE", f"/api/v1/namespaces/default/pods/nothing?{query(parameters)}"))


@given(parameters=PARAMETERS)
@SETTINGS
def test_queries_of_watches(running: Running, parameters: dict[str, str]) -> None:
    async def main() -> Answer:
        target = f"/api/v1/namespaces/default/pods?{query(parameters)}&watch=true"
        reader, writer = await running.harness.connect()
        try:
            headers = "".join(f"{name}: {value}\r\n" for name, value in running.harness.headers().items())
            writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n".encode())
            text = await reader.readuntil(b"\r\n\r\n")
            return Answer(int(text.split(b" ")[1]), {}, b"")
        finally:
            writer.close()

    assert 200 <= running.run(main()).status < 500


@given(
    tree=JSON_TREES,
    content_type=st.sampled_from([*BODY_TYPES, "text/plain", ""]),
    path=st.sampled_from(
        [
            "/api/v1/namespaces/default/pods",
            "/api/v1/namespaces/default/pods/web/binding",
            "/api/v1/namespaces/default/pods/web/eviction?dryRun=All",
            "/api/v1/nodes",
            "/apis/apps/v1/namespaces/default/deployments",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/events.k8s.io/v1/namespaces/default/events",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "/apis/authentication.k8s.io/v1/tokenreviews",
        ]
    ),
    whole=st.booleans(),
)
@SETTINGS
def test_bodies(running: Running, tree: Any, content_type: str, path: str, whole: bool) -> None:
    if whole and isinstance(tree, dict):
        tree = {**tree, "metadata": {"generateName": "fuzz-"}}
    check(running.fetch("POST", path, json.dumps(tree).encode(), content_type=content_type))


@given(data=st.binary(max_size=200), content_type=st.sampled_from([*BODY_TYPES, *PATCH_TYPES]))
@SETTINGS
def test_bytes(running: Running, data: bytes, content_type: str) -> None:
    pods = "/api/v1/namespaces/default/pods"
    for body in (data, b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12" + bytes([len(data) % 128]) + data):
        check(running.fetch("POST", pods, body, content_type=content_type))
        check(
            running.fetch("PATCH", f"{pods}/web?dryRun=All&fieldManager=f", body, content_type=content_type)
        )


@given(
    tree=JSON_TREES,
    content_type=st.sampled_from(PATCH_TYPES),
    path=st.sampled_from(["pods/web", "pods/web/status", "pods/nothing"]),
)
@SETTINGS
def test_patches(running: Running, tree: Any, content_type: str, path: str) -> None:
    target = f"/api/v1/namespaces/default/{path}?dryRun=All&fieldManager=fuzz&force=true"
    check(running.fetch("PATCH", target, json.dumps(tree).encode(), content_type=content_type))


@given(
    operations=st.lists(
        st.fixed_dictionaries(
            {
                "op": st.one_of(
                    st.sampled_from(words("add remove replace move copy test")), st.text(max_size=3)
                )
            },
            optional={
                "path": st.sampled_from(
                    ["", "/", "/metadata/labels", "/spec/containers/0", "/spec/containers/-", "x"]
                ),
                "from": st.sampled_from(["", "/spec", "/metadata/labels/app"]),
                "value": JSON_TREES,
            },
        ),
        max_size=6,
    )
)
@SETTINGS
def test_json_patches(running: Running, operations: Any) -> None:
    target = "/api/v1/namespaces/default/pods/web?dryRun=All"
    body = json.dumps(operations).encode()
    check(running.fetch("PATCH", target, body, content_type=PATCH_TYPES[0]))


@given(accept=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
@SETTINGS
def test_accept_headers(running: Running, accept: str) -> None:
    for path in ("/api/v1/pods", "/apis", "/openapi/v2"):
        check(running.fetch("GET", path, accept=accept))


def test_it_is_still_there(running: Running) -> None:
    """Everything that the others stored can still be read, in every form."""
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for path in (
        "/api/v1/pods",
        "/api/v1/nodes",
        "/apis/apps/v1/deployments",
        "/apis/events.k8s.io/v1/events",
    ):
        for accept in ("application/json", "application/yaml", table):
            assert running.fetch("GET", path, accept=accept).status == 200
    assert running.fetch("GET", "/openapi/v3").status == 200
