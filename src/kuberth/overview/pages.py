"""The HTTP paths of the overview.

In: requests. Out: the built page, which needs no permission, and the stream, pod histories, nodes and search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kuberth.https.messages import Request, Response
from kuberth.overview.answers import UnknownName, history_tree, node_tree, search_tree
from kuberth.overview.overview import MOST_SUBSCRIBERS, Overview
from kuberth.overview.static_files import static_pages
from kuberth.serving.messages import Handler, failure

PAGE_PATH: Final = "/ui"
STREAM_PATH: Final = f"{PAGE_PATH}/stream"
HISTORY_PATH: Final = f"{PAGE_PATH}/history"
NODE_PATH: Final = f"{PAGE_PATH}/node"
SEARCH_PATH: Final = f"{PAGE_PATH}/search"
EVENT_STREAM: Final = "text/event-stream"


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
