"""The files of the built page, which hold no data and need no permission.

In: the folder of the built page. Out: responses with a strict content security policy: a browser runs only
these files and connects only to this server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from kuberth.https.messages import Request, Response
from kuberth.serving.messages import Handler, failure

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
