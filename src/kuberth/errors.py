"""Every error Kuberth raises, in one tree.

    KuberthError
    ├── WireError            an object's JSON does not have the shape its kind asks for
    ├── QuantityError        a quantity like "500m" cannot be read
    ├── SelectorError        a label, field or node selector cannot be compiled
    ├── CelCompileError      a device selector is no CEL expression that answers yes or no
    ├── CelRuntimeError      a device selector has no answer for a device
    ├── ConfigError          a configuration file or flag is wrong (the user can mend it)
    ├── PluginError          a plugin raised or answered nonsense (its author can mend it)
    ├── ExtenderError        an extender cannot be reached, refused, or answered nonsense
    ├── QueueError           an operation the scheduling queue refuses
    ├── ServingError         a server cannot start (the user can mend it)
    │   └── PortTakenError       another process listens on its port
    ├── LeadershipLost       the lease could not be renewed in time: stop writing, end the process
    └── ApiError             the Kubernetes API refused or lost a request
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
    """Base of all errors raised on purpose; the message says what happened, to what, and what to do."""


class WireError(KuberthError):
    """An object's JSON does not have the shape its kind asks for."""


class QuantityError(KuberthError, ValueError):
    """A resource quantity cannot be read."""


class SelectorError(KuberthError, ValueError):
    """A label, field or node selector cannot be compiled."""


class CelCompileError(KuberthError, ValueError):
    """A device selector is no CEL expression that answers yes or no; the text says where and why."""


class CelRuntimeError(KuberthError):
    """A device selector has no answer for a device: a key is missing, types do not fit, it costs too much."""


class ConfigError(KuberthError):
    """A configuration file or flag is wrong."""


class PluginError(KuberthError):
    """A plugin raised, or answered something its extension point does not allow."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"plugin {plugin!r} at {point}: {problem}")
        self.plugin = plugin
        self.point = point
        self.problem = problem


class ExtenderError(KuberthError):
    """An extender cannot be reached, said that it failed, or answered what cannot be."""

    def __init__(self, extender: str, problem: str) -> None:
        super().__init__(problem)
        self.extender = extender


class QueueError(KuberthError):
    """An operation the scheduling queue refuses."""


class ServingError(KuberthError):
    """A server cannot start: its address, port or certificate is of no use."""


class PortTakenError(ServingError):
    """Another process listens on the port already."""


class LeadershipLost(KuberthError):  # noqa: N818  # it is an outcome to act on more than a fault
    """The lease could not be renewed before its deadline, or another candidate holds it."""


class ApiError(KuberthError):
    """The Kubernetes API refused a request, or its answer was lost."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NotFoundError(ApiError):
    """The object is not there (HTTP 404)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=404, reason="NotFound")


class ConflictError(ApiError):
    """A precondition failed: the object changed, exists already, or the pod is assigned (HTTP 409)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=409, reason="Conflict")


class AnswerLostError(ApiError):
    """A request was sent but its answer never came: only reading the object shows whether it took effect."""


class AlreadyExistsError(ConflictError):
    """An object of this name exists already (HTTP 409 with reason AlreadyExists)."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.reason = "AlreadyExists"


class UnauthorizedError(ApiError):
    """The API server does not accept the credentials (HTTP 401)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=401, reason="Unauthorized")


class ForbiddenError(ApiError):
    """The credentials are fine, but RBAC does not allow the request (HTTP 403)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=403, reason="Forbidden")


class TooManyRequestsError(ApiError):
    """The API server is overloaded and went on saying so (HTTP 429)."""

    def __init__(self, message: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message, code=429, reason="TooManyRequests")
        self.retry_after_seconds = retry_after_seconds


class UnreachableError(ApiError):
    """No answer: not connected, TLS failed, the deadline passed, or a read was cut. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="Unreachable")


def described(exc: BaseException) -> str:
    """The text of an exception with its type; a KuberthError's text says it all by itself."""
    name, text = type(exc).__name__, str(exc)
    if not text:
        return name
    return text if isinstance(exc, KuberthError) else f"{name}: {text}"


def first_error(error: BaseException) -> BaseException:
    """The error itself, or the first one of the groups in which tasks fail."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def reraise_interrupt(exc: BaseException) -> None:
    """Ctrl-C that Python itself turned into an exception is the user's, wherever it happens to strike."""
    if isinstance(exc, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise exc
