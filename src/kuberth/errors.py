"""Every error Kuberth raises, in one tree.

    KuberthError
    ├── WireError            an object's JSON does not have the shape its kind asks for
    ├── QuantityError        a quantity like "500m" cannot be read
    ├── SelectorError        a label, field or node selector cannot be compiled
    ├── ConfigError          a configuration file or flag is wrong (the user can mend it)
    ├── PluginError          a plugin raised or answered nonsense (its author can mend it)
    ├── QueueError           an operation the scheduling queue refuses
    └── ApiError             the Kubernetes API refused or lost a request
        ├── NotFoundError
        └── ConflictError

Expected outcomes (a pod does not fit, a gate is closed) are `Status` values, never exceptions.
"""

from __future__ import annotations


class KuberthError(Exception):
    """Base of all errors raised on purpose; the message says what happened, to what, and what to do."""


class WireError(KuberthError):
    """An object's JSON does not have the shape its kind asks for."""


class QuantityError(KuberthError, ValueError):
    """A resource quantity cannot be read."""


class SelectorError(KuberthError, ValueError):
    """A label, field or node selector cannot be compiled."""


class ConfigError(KuberthError):
    """A configuration file or flag is wrong."""


class PluginError(KuberthError):
    """A plugin raised, or answered something its extension point does not allow."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"plugin {plugin!r} at {point}: {problem}")
        self.plugin = plugin
        self.point = point
        self.problem = problem


class QueueError(KuberthError):
    """An operation the scheduling queue refuses."""


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
