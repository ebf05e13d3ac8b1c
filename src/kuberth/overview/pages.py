"""The HTTP paths of the overview.

In: requests. Out: the built page, which needs no permission, and the stream, pod histories, nodes and search.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

from kuberth.https.messages import Request, Response
from kuberth.overview.answers import UnknownName, history_tree, node_tree, search_tree
from kuberth.overview.overview import MOST_SUBSCRIBERS, Overview
from kuberth.serving.messages import Handler, failure

PAGE_PATH: Final = "/ui"
STREAM_PATH: Final = f"{PAGE_PATH}/stream"
HISTORY_PATH: Final = f"{PAGE_PATH}/history"
NODE_PATH: Final = f"{PAGE_PATH}/node"
SEARCH_PATH: Final = f"{PAGE_PATH}/search"
EVENT_STREAM: Final = "text/event-stream"


FOLDER: Final = "page"
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


class OverviewPages(NamedTuple):
    routes: dict[str, Handler]
    """Handlers by path."""
    open_paths: frozenset[str]
    """Paths without data, which need no permission."""


def overview_pages(overview: Overview) -> OverviewPages:
    open_pages = static_pages(PAGE_PATH)
    data: dict[str, Handler] = {
        STREAM_PATH: lambda request: _stream(overview, request),
        HISTORY_PATH: _about(
            "pod", lambda query: history_tree(overview, query("namespace") or "default", query("pod"))
        ),
        NODE_PATH: _about("name", lambda query: node_tree(overview, query("name"))),
        SEARCH_PATH: _about("q", lambda query: search_tree(overview, query("q"))),
    }
    return OverviewPages({**open_pages, **data}, frozenset(open_pages))


def _stream(overview: Overview, request: Request) -> Response:
    if request.method == "HEAD":
        return Response(content_type=EVENT_STREAM)
    if overview.subscribers >= MOST_SUBSCRIBERS:
        problem = f"the overview has {MOST_SUBSCRIBERS} subscribers already; close one, or try later"
        return failure(503, "ServiceUnavailable", problem)
    return Response(overview.stream(), content_type=EVENT_STREAM, endless=True)


def _about(parameter: str, answer: Callable[[Callable[[str], str]], dict[str, Any]]) -> Handler:
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


def static_pages(root: str, folder: Traversable | None = None) -> dict[str, Handler]:
    """Handlers by path. `root` with a slash is the index; without one it redirects there."""
    built = files("kuberth").joinpath(FOLDER) if folder is None else folder
    pages: dict[str, Handler] = {
        root: lambda _request: Response(status=302, headers=HEADERS | {"location": f"{root}/"}),
        f"{root}/": lambda _request: failure(
            404, "NotFound", "this installation has no page; build it with `make page`"
        ),
    }
    for name, file in _files(built):
        page = partial(_answer, file.read_bytes(), TYPES[_ending(name)])
        pages[f"{root}/{name}"] = page
        if name == INDEX:
            pages[f"{root}/"] = page
    return pages


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif _ending(entry.name) in TYPES:
            yield f"{prefix}{entry.name}", entry


def _ending(name: str) -> str:
    return name[name.rfind(".") :]


def _answer(body: bytes, content_type: str, request: Request) -> Response:
    headers = HEADERS | {"etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(status=304, content_type=content_type, headers=headers)
    return Response(body, content_type=content_type, headers=headers)
