"""Translates the API server's errors: a Status object becomes an `ApiError`.

In: a response that is not 2xx, the ERROR event of a watch, or a Status from a server in this process. Out:
the `ApiError` to raise, with the request, the server's message and the fix in one line.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kuberth.client.connecting.connection import HttpAnswer
from kuberth.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
)

_LONGEST_TEXT: Final = 300
_TOO_LARGE_VERSION: Final = b"ResourceVersionTooLarge"
"""The cause in a Status: a resource version that the server has not reached."""
_REASONS: Final = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""client-go's reasons for answers without a Status, by code."""


class ApiStatus(msgspec.Struct, frozen=True):
    """The fields of a Kubernetes Status that determine the error."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Any = None
    """Undecoded, because a proxy may have written it."""

    def blames(self, field: str) -> bool:
        """Whether the server names this field of the object as a cause."""
        causes = self.details.get("causes") if isinstance(self.details, dict) else None
        if not isinstance(causes, list):
            return False
        return any(isinstance(cause, dict) and cause.get("field") == field for cause in causes)


def refusal(answer: HttpAnswer, *, what: str, rule: str = "", source: str = "") -> ApiError:
    """The error for an answer; `rule` is the RBAC rule that would allow the request."""
    status = _status(answer.body)
    return status_error(
        msgspec.structs.replace(status, code=answer.status, message=status.message or _as_text(answer)),
        what=what,
        rule=rule,
        source=source,
        wait_seconds=retry_after(answer) or 0.0,
    )


def watch_error(raw: Any, *, what: str) -> ApiError:
    """The error for a watch's ERROR event, whose object is a Status."""
    status = _status(raw)
    return status_error(
        msgspec.structs.replace(
            status, code=status.code or 500, message=status.message or "ended with an error"
        ),
        what=what,
    )


def retry_after(answer: HttpAnswer) -> float | None:
    """The server's Retry-After in seconds, if the request may be retried: 429, or any 5xx."""
    if answer.status != 429 and answer.status < 500:
        return None
    if _TOO_LARGE_VERSION in answer.body:
        # The response has a Retry-After, but the server has waited already. client-go retries ten times, for
        # almost a minute; here the caller lists the newest state instead.
        return None
    header = answer.headers.get(b"retry-after", b"")
    return float(header) if header.isdigit() else None


def status_error(
    status: ApiStatus, *, what: str, rule: str = "", source: str = "", wait_seconds: float = 0.0
) -> ApiError:
    code, reason = status.code, status.reason or _REASONS.get(status.code, "")
    message = f"{what}: {status.message}"
    match code:
        case 404:
            return NotFoundError(message)
        case 409:
            return AlreadyExistsError(message) if reason == "AlreadyExists" else ConflictError(message)
        case 401:
            return UnauthorizedError(f"{message}; check the credentials in {source}, they may have expired")
        case 403:
            # Admission also returns 403, and then no RBAC rule helps; the authorizer's message contains
            # "cannot".
            admission = "is forbidden: " in status.message and " cannot " not in status.message
            helps = rule and not admission
            return ForbiddenError(f"{message}; allow it with the RBAC rule {rule}" if helps else message)
        case 422 if status.blames("metadata.uid"):
            # The object was recreated: the UID in the patch is a precondition, which the server reports as an
            # attempt to change the UID.
            return ConflictError(message)
        case 429:
            return TooManyRequestsError(message, retry_after_seconds=wait_seconds)
    return ApiError(message, code=code, reason=reason)


def _status(raw: Any) -> ApiStatus:
    try:
        return msgspec.json.decode(raw, type=ApiStatus)
    except msgspec.MsgspecError:
        return ApiStatus()


def _as_text(answer: HttpAnswer) -> str:
    """A response without a Status, such as a proxy's, in one short line."""
    text = " ".join(answer.body[: 2 * _LONGEST_TEXT].decode(errors="replace").split())[:_LONGEST_TEXT]
    printable = "".join(each if each.isprintable() else "?" for each in text)
    return f"HTTP {answer.status}: {printable}" if printable else f"HTTP {answer.status}"
