"""A request and its answer, as the pages see them: plain values, no ASGI."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` has lower-case names; of a repeated header the last one counts."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Mapping[str, Any] | None = None
    """The client's certificate as `ssl` describes it, verified against the client CA; None without one."""

    @classmethod
    def from_scope(cls, scope: Mapping[str, Any]) -> Request:
        query = scope["query_string"].decode("latin-1")
        return cls(
            method=scope["method"],
            path=scope["path"],
            query=parse_qs(query, keep_blank_values=True, max_num_fields=100),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            certificate=scope.get("state", {}).get("certificate"),
        )


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes | AsyncIterator[bytes]
    status: int = 200
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def text(cls, text: str, *, status: int = 200) -> Response:
        return cls(text.encode(), status=status)

    @classmethod
    def json(cls, tree: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        body = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
        return cls(body, status=status, content_type=JSON, headers=headers or {})

    @classmethod
    def failure(cls, code: int, reason: str, message: str, **more: Any) -> Response:
        """A Kubernetes Status, as every refusal of an API server is."""
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return cls.json({**head, "message": message, "reason": reason, **more, "code": code}, status=code)


Handler = Callable[[Request], Response]
"""What answers one path. It returns at once; a long body is an iterator."""


def internal_error(request: Request, problem: str) -> Response:
    line = f"Internal Server Error: {json.dumps(request.path)}: {problem}"
    # Plain text, but some browser may take it for a page.
    for character, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        line = line.replace(character, harmless)
    return Response.text(line + "\n", status=500)
