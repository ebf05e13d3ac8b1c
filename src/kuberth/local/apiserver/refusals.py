"""Errors of requests, with upstream's messages.

In: the resource, the name and the reason. Out: `StatusError` values to raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import Cause, StatusError


def _details(row: ServedResource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"kind": row.plural}
    if name:
        details["name"] = name
    if row.group:
        details["group"] = row.group
    return details


def not_found(row: ServedResource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{row.id} "{name}" not found', details=_details(row, name))


def unknown_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(row: ServedResource, name: str) -> StatusError:
    message = f'{row.id} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(row, name))


def conflict(row: ServedResource, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {row.id} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(row, name))


def modified(row: ServedResource, name: str) -> StatusError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(row, name, why)


def invalid(row: ServedResource, name: str, causes: Sequence[Cause]) -> StatusError:
    details = _details(row, name) | {"kind": row.kind}
    problems = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    owner = f"{row.kind}.{row.group}" if row.group else row.kind
    message = f'{owner} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, details=details, causes=causes)


def forbidden(row: ServedResource, name: str, why: str, *, causes: Sequence[Cause] = ()) -> StatusError:
    named = f' "{name}"' if name else ""
    message = f"{row.id}{named} is forbidden: {why}"
    return StatusError(403, "Forbidden", message, details=_details(row, name), causes=causes)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def method_not_supported(row: ServedResource, verb: str) -> StatusError:
    message = f"{verb} is not supported on resources of kind {row.id!r}".replace("'", '"')
    return StatusError(405, "MethodNotAllowed", message, details={"kind": row.plural})


def unsupported_media_type(supported: Sequence[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        supported
    )
    return StatusError(415, "UnsupportedMediaType", message)


def too_large_version(version: int, current: int) -> StatusError:
    """A list of a version that does not exist yet."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        causes=[Cause("", "Too large resource version", "ResourceVersionTooLarge")],
        retry_after_seconds=1,
    )


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_many_requests(
    message: str, *, causes: Sequence[Cause] = (), seconds: int | None = None
) -> StatusError:
    return StatusError(429, "TooManyRequests", message, causes=causes, retry_after_seconds=seconds)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", message)
