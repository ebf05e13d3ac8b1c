"""The HTTP paths of the overview.

In: requests. Out: the built page, which needs no permission, and as JSON the stream and answers about one
pod, one node or a part of a name.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

import kuberth
from kuberth.api.core import Pod
from kuberth.api.pod_resources import CPU, PODS, pod_priority
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError
from kuberth.explaining.targets import ExplainTarget, find_pod
from kuberth.https.messages import Request, Response
from kuberth.informers.store import object_key
from kuberth.overview.histories import PodHistory
from kuberth.overview.node_rows import NodeRows
from kuberth.overview.overview import Overview, TooManySubscribers
from kuberth.overview.pending import IN_FLIGHT, PERMIT, PLACED
from kuberth.serving.messages import Handler, failure

PAGE_PATH: Final = "/ui"
STREAM_PATH: Final = f"{PAGE_PATH}/stream"
HISTORY_PATH: Final = f"{PAGE_PATH}/history"
NODE_PATH: Final = f"{PAGE_PATH}/node"
SEARCH_PATH: Final = f"{PAGE_PATH}/search"
EVENT_STREAM: Final = "text/event-stream"


FOLDER: Final = Path(kuberth.__file__).parent / "page"
INDEX: Final = "index.html"
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".map": "application/json",
    ".woff2": "font/woff2",
}


def overview_pages(overview: Overview) -> tuple[dict[str, Handler], frozenset[str]]:
    """Handlers by path, and the paths without data, which need no permission."""
    open_pages = static_pages(PAGE_PATH)
    data: dict[str, Handler] = {
        STREAM_PATH: lambda request: _stream(overview, request),
        HISTORY_PATH: _answering(
            "pod", lambda query: history_tree(overview, query("namespace") or "default", query("pod"))
        ),
        NODE_PATH: _answering("name", lambda query: node_tree(overview, query("name"))),
        SEARCH_PATH: _answering("q", lambda query: search_tree(overview, query("q"))),
    }
    return {**open_pages, **data}, frozenset(open_pages)


def _stream(overview: Overview, request: Request) -> Response:
    if request.method == "HEAD":
        return Response(content_type=EVENT_STREAM)
    try:
        overview.expect_capacity()
    except TooManySubscribers as full:
        return failure(503, "ServiceUnavailable", str(full))
    return Response(overview.stream(), content_type=EVENT_STREAM, endless=True)


def _answering(parameter: str, answer: Callable[[Callable[[str], str]], dict[str, Any]]) -> Handler:
    def page(request: Request) -> Response:
        if not request.query.text(parameter):
            return failure(
                400,
                "BadRequest",
                f"the parameter {parameter} is missing; use {request.path}?{parameter}=NAME",
            )
        try:
            return Response.json(answer(request.query.text))
        except UnknownName as error:
            return failure(404, "NotFound", str(error))

    return page


def static_pages(root: str, folder: Path = FOLDER) -> dict[str, Handler]:
    """Handlers by path. `root` with a slash is the index; without one it redirects there."""
    pages: dict[str, Handler] = {
        root: lambda _request: Response(status=302, headers=HEADERS | {"location": f"{root}/"}),
        f"{root}/": lambda _request: failure(
            404, "NotFound", "this installation has no page; build it with `make page`"
        ),
    }
    for file in folder.rglob("*"):
        if file.suffix in TYPES:
            name = file.relative_to(folder).as_posix()
            pages[f"{root}/{name}"] = page = partial(_answer, file.read_bytes(), TYPES[file.suffix])
            if name == INDEX:
                pages[f"{root}/"] = page
    return pages


def _answer(body: bytes, content_type: str, request: Request) -> Response:
    headers = HEADERS | {"etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(status=304, content_type=content_type, headers=headers)
    return Response(body, content_type=content_type, headers=headers)


# Answers

MAX_FOUND: Final = 50
"""A search returns at most this many pods and this many nodes."""


class UnknownName(LookupError):  # noqa: N818  # an answer more than a fault
    """No pod or node has this name."""


def history_tree(overview: Overview, namespace: str, name: str) -> dict[str, Any]:
    key = f"{namespace}/{name}"
    pod = overview.scheduler.stores.of(Pod).get_by_key(key)
    history = overview.histories.named(key) if pod is None else overview.histories.of(pod.metadata.uid)
    if pod is None and history is None:
        try:
            find_pod(overview.scheduler.stores.of(Pod), ExplainTarget("Pod", name), namespace)
        except ConfigError as error:
            raise UnknownName(str(error)) from error
    return {
        "pod": {"namespace": namespace, "name": name, **_pod(overview, pod, history)},
        "moves": [] if history is None else msgspec.to_builtins(history.moves),
        "cycles": [] if history is None else msgspec.to_builtins(history.attempts),
    }


def _pod(overview: Overview, pod: Pod | None, history: PodHistory | None) -> dict[str, Any]:
    """The pod's current state; of a deleted pod, what its history shows."""
    attempts = 0 if history is None else len(history.attempts)
    if pod is None:
        uid, queue = ("", "") if history is None else (history.uid, history.queue)
        gone = {"uid": uid, "node": "", "phase": "", "queue": queue, "priority": 0, "profile": ""}
        return {**gone, "attempts": attempts}
    scheduler = overview.scheduler
    placed = scheduler.cluster.placed(pod.metadata.uid)
    queued = scheduler.queue.get(object_key(pod))
    return {
        "uid": pod.metadata.uid,
        "node": "" if placed is None else placed.node_name,
        "phase": pod.status.phase,
        "queue": QueueLookup(overview).of(pod),
        "priority": pod_priority(pod),
        "profile": pod.spec.scheduler_name,
        "attempts": attempts if queued is None else queued.attempts,
    }


class QueueLookup:
    """Finds the queue of a pod, also while there are no subscribers and `PendingPods` does not exist."""

    def __init__(self, overview: Overview) -> None:
        self._scheduler = overview.scheduler
        self._queues: dict[str, str] | None = None

    def of(self, pod: Pod) -> str:
        """The queue, `placed`, or "" for a pod of another scheduler."""
        scheduler, uid = self._scheduler, pod.metadata.uid
        if scheduler.cluster.placed(uid) is not None and not scheduler.cluster.is_assumed(uid):
            return PLACED
        if scheduler.waiting_pods.get(uid) is not None:
            return PERMIT
        if scheduler.cluster.is_assumed(uid):
            return IN_FLIGHT
        if self._queues is None:
            self._queues = {other.metadata.uid: IN_FLIGHT for other in scheduler.queue.in_flight()}
            for queue, waiting in scheduler.queue.pending_pods().items():
                self._queues |= {queued.uid: queue for queued in waiting}
        return self._queues.get(uid, "")


def node_tree(overview: Overview, name: str) -> dict[str, Any]:
    cluster = overview.scheduler.cluster
    row = cluster.row_of(name)
    if row is None:
        names = [each for each in cluster.names if each]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnknownName(f"there is no node {name}{hint}")
    rows = overview.nodes if overview.subscribers else NodeRows(cluster)
    node = cluster.node_at(row)
    _, zone, pool, flags, allocatable, requested = rows.line(row)
    return {
        "name": name,
        "zone": zone,
        "pool": pool,
        "flags": flags,
        "labels": dict(node.metadata.labels),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.spec.taints
        ],
        "allocatable": dict(zip(rows.resources, allocatable, strict=True)),
        "requested": dict(zip(rows.resources, requested, strict=True)),
        "pods": [_pod_on_node(info, rows.resources) for info in cluster.pods_at(row)],
    }


def _pod_on_node(info: PodInfo, resources: list[str]) -> list[Any]:
    amounts = info.request.amounts() | {PODS: 1, CPU: info.request.milli_cpu / 1000}
    return [
        info.namespace,
        info.pod.metadata.name,
        info.pod.status.phase,
        info.priority,
        [amounts.get(name, 0) for name in resources],
    ]


def search_tree(overview: Overview, text: str) -> dict[str, Any]:
    where = QueueLookup(overview)
    cluster = overview.scheduler.cluster
    pods = []
    for pod in _matching_pods(overview, text.lower()):
        placed = cluster.placed(pod.metadata.uid)
        node = "" if placed is None else placed.node_name
        pods.append([pod.metadata.namespace, pod.metadata.name, where.of(pod), node])
    nodes = sorted(name for name in cluster.names if name and text.lower() in name)
    return {"pods": pods, "nodes": nodes[:MAX_FOUND]}


def _matching_pods(overview: Overview, text: str) -> Iterator[Pod]:
    """With a slash in the text, the namespace counts as part of the name."""
    found = 0
    for pod in overview.scheduler.stores.of(Pod):
        metadata = pod.metadata
        if text in (f"{metadata.namespace}/{metadata.name}" if "/" in text else metadata.name):
            yield pod
            found += 1
            if found == MAX_FOUND:
                return
