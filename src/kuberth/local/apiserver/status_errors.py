"""Errors as Kubernetes reports them: a Status object with code, reason, message and causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kuberth.errors import KuberthError
from kuberth.local.apiserver.objects import Obj


class Cause(NamedTuple):
    """A problem of the object in a request."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


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
