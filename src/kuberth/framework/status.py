"""The answer of a plugin: a code, its reasons, and the plugin.

In: a plugin's return value. Out: a value for the runner, the queue and event messages.
"""

from __future__ import annotations

import enum
from typing import Final


class Code(enum.IntEnum):
    """The outcome of an extension point, with kube-scheduler's names."""

    SUCCESS = 0
    """The pod fits, or the work is done. `None` means the same."""
    ERROR = 1
    """An unexpected failure; the pod is retried after a backoff, regardless of events."""
    UNSCHEDULABLE = 2
    """The pod does not fit now; removing other pods (preemption) may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """The pod does not fit, and removing pods would not help."""
    WAIT = 4
    """Permit only: hold the pod before its binding."""
    SKIP = 5
    """The plugin does nothing for this pod at the coupled point (Filter, Score, Bind)."""
    PENDING = 6
    """The pod waits for something that has been requested; when it arrives, the backoff is skipped
    (KEP-4247)."""

    @property
    def label(self) -> str:
        """The name in metrics and messages, as in kube-scheduler."""
        return _LABELS[self]


_LABELS: Final = tuple("".join(word.capitalize() for word in code.name.split("_")) for code in Code)
_REJECTED: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status:
    """An immutable outcome. A plugin may return `None` instead of `SUCCESS`."""

    __slots__ = ("cause", "code", "is_rejected", "is_skip", "is_success", "is_wait", "plugin", "reasons")

    def __init__(
        self, code: Code, *reasons: str, plugin: str = "", cause: BaseException | None = None
    ) -> None:
        # Checked here, inside the plugin's call: later the faulty plugin would be unknown.
        if type(code) is not Code:
            raise TypeError(f"the first argument of a Status is a Code, not {code!r:.100}")
        for reason in reasons:
            if not isinstance(reason, str):
                raise TypeError(f"a reason of a Status is a string, not {reason!r:.100}")
        self.code = code
        """The code."""
        self.reasons = reasons
        """The reasons; the FailedScheduling event counts nodes by these."""
        self.plugin = plugin
        """The plugin that answered; set by the framework."""
        self.cause = cause
        """The exception that caused an error, if there was one."""
        # Attributes, because properties would be too slow on this hot path.
        self.is_success: bool = code is Code.SUCCESS
        """Whether the code is Success."""
        self.is_skip: bool = code is Code.SKIP
        """Whether the code is Skip."""
        self.is_wait: bool = code is Code.WAIT
        """Whether the code is Wait."""
        self.is_rejected: bool = code in _REJECTED
        """Whether the status is a rejection of the pod, and not a failure."""

    @classmethod
    def unschedulable(cls, *reasons: str) -> Status:
        """The pod does not fit now; removing other pods may help."""
        return cls(Code.UNSCHEDULABLE, *reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Status:
        """The pod does not fit, and removing pods would not help."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, *reasons)

    @classmethod
    def pending(cls, *reasons: str) -> Status:
        """The pod waits for something that has been requested; when it arrives, the backoff is skipped."""
        return cls(Code.PENDING, *reasons)

    @classmethod
    def wait(cls, *reasons: str) -> Status:
        """Permit only: hold the pod before its binding."""
        return cls(Code.WAIT, *reasons)

    @classmethod
    def error(cls, problem: str | BaseException, *, plugin: str = "") -> Status:
        """An unexpected failure: the pod is retried after a backoff."""
        if isinstance(problem, BaseException):
            return cls(Code.ERROR, str(problem) or type(problem).__name__, plugin=plugin, cause=problem)
        return cls(Code.ERROR, problem, plugin=plugin)

    @property
    def message(self) -> str:
        """All reasons, separated by commas."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status, attributed to `plugin`."""
        if self.plugin == plugin:
            return self
        return Status(self.code, *self.reasons, plugin=plugin, cause=self.cause)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.reasons, self.plugin) == (other.code, other.reasons, other.plugin)

    def __hash__(self) -> int:
        return hash((self.code, self.reasons, self.plugin))

    def __repr__(self) -> str:
        by = f" by {self.plugin}" if self.plugin else ""
        return f"<{self.code.label}{by}: {self.message}>" if self.reasons else f"<{self.code.label}{by}>"


SUCCESS: Final = Status(Code.SUCCESS)
"""The status that `None` means."""
SKIP: Final = Status(Code.SKIP)
"""The plugin does nothing for this pod."""
