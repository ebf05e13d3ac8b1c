"""Responses in the API server's format: Kubernetes Status objects, and internal errors as plain text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kuberth.https.messages import Request, Response

Handler = Callable[[Request], Response]
"""Answers the requests of one path. It never suspends; a long body is an async iterator."""


def failure(code: int, reason: str, message: str, **more: Any) -> Response:
    """A Kubernetes Status with code, reason and message."""
    return Response.json(failure_tree(code, reason, message, **more), status=code)


def failure_tree(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """The Status itself, as a tree of JSON."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, "reason": reason, **more, "code": code}


def internal_error(request: Request, problem: str) -> Response:
    line = f"Internal Server Error: {json.dumps(request.path)}: {problem}"
    # Plain text, but a browser may interpret it as HTML.
    for character, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        line = line.replace(character, harmless)
    return Response.text(line + "\n", status=500)
