"""Calls a plugin's method, validates the answer, and measures and counts the call where needed.

In: a plugin's method and its arguments. Out: the answer, or a `Status`. If a plugin raises, or returns a
value that its extension point does not allow, the result is an Error status that names the plugin and the
point.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.errors import PluginError, described, reraise_interrupt
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import EXTENSION_POINTS, Plugin
from kuberth.framework.status import SKIP, SUCCESS, Code, Status
from kuberth.observe.metrics import HistogramValue, SchedulerMetrics

logger = logging.getLogger(__name__)

ADD_POD: Final = "PreFilterExtensionAddPod"
REMOVE_POD: Final = "PreFilterExtensionRemovePod"
NORMALIZE: Final = "ScoreExtensionNormalize"
PRE_FLIGHT: Final = "PreBindPreFlight"
UNRESERVE: Final = "Unreserve"

FEW_NODES: Final = 8
"""Up to this number of nodes, a plugin with both forms is called per node, which is then faster."""

_ALLOWED: Final[dict[str, frozenset[Code]]] = {
    **{point.label: point.answers for point in EXTENSION_POINTS},
    ADD_POD: frozenset(),
    REMOVE_POD: frozenset(),
    NORMALIZE: frozenset(),
    PRE_FLIGHT: frozenset({Code.SKIP}),
}
"""The codes that a plugin may return in addition to Success and Error, by extension point and part of one."""

STATUS: Final = "a Status or None"
ANSWERS: Final = {
    "PreFilter": "a PreFilterResult, a Status or None",
    "PostFilter": "a tuple (PostFilterResult or None, Status or None), or a Status",
    "Permit": "a PermitResult, a Status or None",
}
"""The types that a plugin may return, if other than a status."""


class Calls:
    """Calls the plugins of one profile."""

    def __init__(self, profile_name: str, metrics: SchedulerMetrics) -> None:
        self.profile_name = profile_name
        self.evaluations = metrics.plugin_evaluation.values
        """By plugin, point and profile: the number of evaluated nodes or pods."""
        self._metrics = metrics
        self._successes: dict[str, HistogramValue] = {}

    def call(
        self, plugin: Plugin, point: str, method: Callable[..., Any], *args: Any, timed: bool = False
    ) -> Any:
        """Call the plugin; any exception becomes an Error status."""
        started = time.perf_counter() if timed else 0.0
        try:
            answer = method(*args)
        except BaseException as exc:
            answer = raised(plugin, point, exc)
        if timed:
            self.time(plugin, point, answer, started)
        return answer

    def status(
        self, plugin: Plugin, point: str, method: Callable[..., Any], *args: Any, timed: bool = False
    ) -> Status:
        """Call the plugin; the answer is a status that the extension point allows."""
        return self.checked(plugin, point, self.call(plugin, point, method, *args, timed=timed))

    def notify(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[..., Any],
        state: CycleState,
        pod: Pod,
        node_name: str,
    ) -> None:
        """Call a plugin that must return nothing; a returned value is logged."""
        answer = self.call(plugin, point, method, state, pod, node_name, timed=state.record_plugin_metrics)
        if answer is not None and not isinstance(answer, Status):
            invalid_answer(plugin, point, answer, "nothing")

    async def async_status(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[..., Any],
        state: CycleState,
        pod: Pod,
        node_name: str,
    ) -> Status:
        """Call and await the plugin; a plain function runs in a thread and does not block the event loop."""
        started = time.perf_counter()

        async def calling() -> Any:
            if inspect.iscoroutinefunction(method):
                return await method(state, pod, node_name)
            answer = await asyncio.to_thread(method, state, pod, node_name)
            return await answer if inspect.isawaitable(answer) else answer

        status = self.checked(plugin, point, await self._awaited(plugin, point, calling()))
        if state.record_plugin_metrics:
            self.time(plugin, point, status, started)
        return status

    async def call_async(
        self, plugin: Plugin, point: str, method: Callable[..., Any], *args: Any, timed: bool = False
    ) -> Any:
        """Like `call`, for a coroutine function; it runs on the event loop."""
        started = time.perf_counter()

        async def calling() -> Any:
            answer = method(*args)
            return await answer if inspect.isawaitable(answer) else answer

        answer = await self._awaited(plugin, point, calling())
        if timed:
            self.time(plugin, point, answer, started)
        return answer

    async def _awaited(self, plugin: Plugin, point: str, calling: Awaitable[Any]) -> Any:
        try:
            return await calling
        except BaseException as exc:
            if isinstance(exc, asyncio.CancelledError):
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # This task was not cancelled: something that the plugin awaited was.
            return raised(plugin, point, exc)

    def checked(self, plugin: Plugin, point: str, answer: object) -> Status:
        """The answer as a status that the extension point allows, attributed to the plugin."""
        if answer is None:
            return SUCCESS
        if not isinstance(answer, Status):
            return invalid_answer(plugin, point, answer, ANSWERS.get(point, STATUS))
        if answer.is_success:
            return SUCCESS
        if answer.is_skip and Code.SKIP in _ALLOWED[point]:
            return SKIP
        if answer.code == Code.ERROR:
            if isinstance(answer.cause, PluginError):
                return answer
            return failure(plugin, point, answer.cause or answer.message)
        if answer.code not in _ALLOWED[point]:
            return invalid_answer(plugin, point, answer.code.label, allowed_codes(point))
        return answer.by(plugin.name)

    def evaluated(self, plugin: str, point: str, times: int = 1) -> None:
        """Count evaluations of nodes, or one of the pod."""
        key = (plugin, point, self.profile_name)
        self.evaluations[key] = self.evaluations.get(key, 0) + times

    def observe(self, point: str, status: Status, started: float) -> None:
        """Record the duration of the extension point, for all plugins together."""
        took = time.perf_counter() - started
        durations = self._successes.get(point) if status is SUCCESS else None
        if durations is None:
            labels = (point, status.code.label, self.profile_name)
            durations = self._metrics.extension_point_duration.of(labels)
            if status is SUCCESS:
                self._successes[point] = durations
        durations.observe(took)

    def time(self, plugin: Plugin, point: str, answer: object, started: float) -> None:
        """Record the duration of one plugin."""
        label = answer.code.label if isinstance(answer, Status) else Code.SUCCESS.label
        self._metrics.plugin_execution_duration.observe(
            (plugin.name, point, label), time.perf_counter() - started
        )


def raised(plugin: Plugin, point: str, exc: BaseException) -> Status:
    """An exception of a plugin as an Error status; this includes SystemExit and CancelledError."""
    reraise_interrupt(exc)
    problem = described(exc)
    logger.error("plugin %r failed at %s: %s", plugin.name, point, problem, exc_info=exc)
    return failure(plugin, point, exc, problem=problem)


def failure(plugin: Plugin, point: str, cause: BaseException | str, *, problem: str = "") -> Status:
    """The Error status that names plugin and extension point; `problem` may say more than the exception."""
    problem = problem or f"{cause}" or type(cause).__name__
    error = PluginError(plugin.name, point, problem)
    if isinstance(cause, BaseException):
        error.__cause__ = cause
    return Status.error(error, plugin=plugin.name)


def allowed_codes(point: str, *, without: Code | None = None) -> str:
    """The codes of a Status that the extension point allows, for a message."""
    codes = [code.label for code in sorted({Code.SUCCESS, Code.ERROR, *_ALLOWED[point]} - {without})]
    return f"a Status with code {', '.join(codes[:-1])} or {codes[-1]}"


def invalid_answer(plugin: Plugin, point: str, answer: object, expected: str) -> Status:
    """The Error status for an answer that the point does not allow; it is logged like an exception."""
    if inspect.iscoroutine(answer):  # an `async def` where a plain function is expected
        answer.close()
    given = f"{answer!r:.200}"
    logger.error("plugin %r at %s: returned %s where %s is expected", plugin.name, point, given, expected)
    return failure(plugin, point, f"returned {given} where {expected} is expected")
