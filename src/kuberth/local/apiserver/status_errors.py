"""Errors as Kubernetes reports them: a Status object with code, reason, message and causes.

In: the resource, the name and the reason, or a field and its value. Out: `Cause` values, and `StatusError`
values to raise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kuberth.errors import KuberthError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource

_MAX_SHOWN: Final = 256


class Cause(NamedTuple):
    """A problem of the object in a request."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


# Causes, with upstream's messages


def invalid_value(field: str, value: Any, why: str) -> Cause:
    return Cause(field, f"Invalid value: {show(value)}: {why}")


def invalid_values(field: str, value: Any, problems: Iterable[str]) -> list[Cause]:
    return [invalid_value(field, value, problem) for problem in problems]


def required(field: str, why: str = "") -> Cause:
    return Cause(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def forbidden_field(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, f"Duplicate value: {show(value)}", "FieldValueDuplicate")


def too_long(field: str, most: int) -> Cause:
    return Cause(field, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")


def too_many(field: str, number: int, most: int) -> Cause:
    words = f"must have at most {most} {'item' if most == 1 else 'items'}"
    return Cause(field, f"Too many: {number}: {words}", "FieldValueTooMany")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{each}"' for each in supported)
    message = f"Unsupported value: {show(value)}: supported values: {listed}"
    return Cause(field, message, "FieldValueNotSupported")


def show(value: Any) -> str:
    """A value as upstream prints it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


class StatusError(KuberthError):
    """An error that is returned as a Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        causes: Sequence[Cause] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        """`details` that are given are answered even if empty: clients look into them."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = None if details is None else dict(details)
        self.causes = tuple(causes)
        self.retry_after_seconds = retry_after_seconds

    def to_object(self) -> Obj:
        details: Obj = dict(self.details or {})
        if self.causes:
            details["causes"] = [
                {"reason": cause.reason, "message": cause.message, "field": cause.field}
                for cause in self.causes
            ]
        if self.retry_after_seconds is not None:
            details["retryAfterSeconds"] = self.retry_after_seconds
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        if details or self.details is not None:
            status["details"] = details
        return status


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
