"""Answers as an API server words them: Kubernetes Status objects, and the plain text of an internal error."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kuberth.https.messages import Request, Response

Handler = Callable[[Request], Response]
"""What answers one path. It returns at once; a long body is an iterator."""


def failure(code: int, reason: str, message: str, **more: Any) -> Response:
    """A Kubernetes Status, as every refusal of an API server is."""
    return Response.json(failure_tree(code, reason, message, **more), status=code)


def failure_tree(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    """The Status itself, as a tree of JSON."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, "reason": reason, **more, "code": code}


def internal_error(request: Request, problem: str) -> Response:
    line = f"Internal Server Error: {json.dumps(request.path)}: {problem}"
    # Plain text, but some browser may take it for a page.
    for character, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        line = line.replace(character, harmless)
    return Response.text(line + "\n", status=500)
