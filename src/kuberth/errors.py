"""The tree of all errors that Kuberth raises.

    KuberthError
    ├── WireError            an object's JSON does not have the shape of its kind
    ├── QuantityError        a quantity like "500m" cannot be parsed
    ├── SelectorError        a label, field or node selector cannot be compiled
    ├── CelCompileError      a device selector is not a CEL expression with a boolean result
    ├── CelRuntimeError      a device selector fails for a device
    ├── ConfigError          a configuration file or flag is wrong (the user can fix it)
    ├── PluginError          a plugin raised or returned an invalid value (its author can fix it)
    ├── ExtenderError        an extender cannot be reached, failed, or returned an invalid response
    ├── QueueError           the scheduling queue does not allow the operation
    ├── ServingError         a server cannot start (the user can fix it)
    │   └── PortTakenError       another process listens on its port
    ├── LeadershipLost       the lease could not be renewed in time: stop writing, end the process
    └── ApiError             the Kubernetes API rejected or lost a request
        ├── NotFoundError
        ├── ConflictError
        │   └── AlreadyExistsError   the name is taken
        ├── UnauthorizedError    the credentials were not accepted
        ├── ForbiddenError       RBAC denies it
        ├── TooManyRequestsError even after the retries
        ├── UnreachableError     no answer, and nothing was changed
        └── AnswerLostError      the request was sent, but no answer came: it may have taken effect

Expected outcomes (a pod does not fit, a gate is closed) are `Status` values, never exceptions.
"""

from __future__ import annotations

import signal


class KuberthError(Exception):
    """Base of all errors that Kuberth raises; the message states the problem, the object, and what to do."""


class WireError(KuberthError):
    """An object's JSON does not have the shape of its kind."""


class QuantityError(KuberthError, ValueError):
    """A resource quantity cannot be parsed."""


class SelectorError(KuberthError, ValueError):
    """A label, field or node selector cannot be compiled."""


class CelCompileError(KuberthError, ValueError):
    """A device selector is not a CEL expression with a boolean result; the message states where and why."""


class CelRuntimeError(KuberthError):
    """A device selector fails for a device: missing key, type mismatch or exceeded cost limit."""


class ConfigError(KuberthError):
    """A configuration file or flag is wrong."""


class PluginError(KuberthError):
    """A plugin raised an exception, or returned a value that its extension point does not allow."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"plugin {plugin!r} at {point}: {problem}")
        self.plugin = plugin
        self.point = point
        self.problem = problem


class ExtenderError(KuberthError):
    """An extender cannot be reached, reported an error, or returned an invalid response."""

    def __init__(self, extender: str, problem: str) -> None:
        super().__init__(problem)
        self.extender = extender


class QueueError(KuberthError):
    """The scheduling queue does not allow the operation."""


class ServingError(KuberthError):
    """A server cannot start: its address, port or certificate is not usable."""


class PortTakenError(ServingError):
    """The port is in use by another process."""


class LeadershipLost(KuberthError):  # noqa: N818  # it is an outcome to act on more than a fault
    """The lease could not be renewed before its deadline, or another candidate holds it."""


class ApiError(KuberthError):
    """The Kubernetes API rejected a request, or its response was lost."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NotFoundError(ApiError):
    """The object does not exist (HTTP 404)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=404, reason="NotFound")


class ConflictError(ApiError):
    """A precondition failed: the object has changed or exists already, or the pod is bound (HTTP 409)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=409, reason="Conflict")


class AnswerLostError(ApiError):
    """A request was sent, but the response was lost: read the object to find out whether it took effect."""


class AlreadyExistsError(ConflictError):
    """An object with this name exists already (HTTP 409 with reason AlreadyExists)."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.reason = "AlreadyExists"


class UnauthorizedError(ApiError):
    """The API server rejects the credentials (HTTP 401)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=401, reason="Unauthorized")


class ForbiddenError(ApiError):
    """The credentials are valid, but RBAC does not allow the request (HTTP 403)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=403, reason="Forbidden")


class TooManyRequestsError(ApiError):
    """The API server is still overloaded after all retries (HTTP 429)."""

    def __init__(self, message: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message, code=429, reason="TooManyRequests")
        self.retry_after_seconds = retry_after_seconds


class UnreachableError(ApiError):
    """The server could not be reached (connection, TLS, deadline), or a read was cut off; nothing changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="Unreachable")


def described(exc: BaseException) -> str:
    """The text of an exception with its type; only the text for a KuberthError."""
    name, text = type(exc).__name__, str(exc)
    if not text:
        return name
    return text if isinstance(exc, KuberthError) else f"{name}: {text}"


def first_error(error: BaseException) -> BaseException:
    """The error itself, or the first one in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def reraise_interrupt(exc: BaseException) -> None:
    """Raise a KeyboardInterrupt again: Ctrl-C may interrupt any code, and belongs to the user."""
    if isinstance(exc, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise exc
