"""Responses in the format that a client accepts: an object as JSON or YAML, an error as a Status object."""

from __future__ import annotations

from typing import Any

from kuberth.https.messages import JSON, Response
from kuberth.local.apiserver.http.negotiation import encode
from kuberth.local.apiserver.status_errors import StatusError


def tree_answer(tree: Any, *, status: int = 200, media_type: str = JSON, pretty: bool = False) -> Response:
    return Response(encode(tree, media_type, pretty=pretty), status=status, content_type=media_type)


def failure_answer(error: StatusError) -> Response:
    response = tree_answer(error.to_object(), status=error.code)
    if error.retry_after_seconds is not None:
        response.headers["retry-after"] = str(error.retry_after_seconds)
    if error.code == 401:
        response.headers["www-authenticate"] = 'Bearer realm="kuberth"'
    return response
