"""How a plugin is asked: called, timed, and its answer turned into a checked value.

In: a plugin's method and its arguments. Out: the answer, or a `Status`. A plugin that raises, or answers
what its point does not allow, becomes an Error status that names the plugin and the point.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.errors import PluginError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import Plugin
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.observe.metrics import SchedulerMetrics

logger = logging.getLogger(__name__)

_REJECTIONS: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})
_ALLOWED: Final = {
    "PreEnqueue": _REJECTIONS,
    "PreFilter": _REJECTIONS | {Code.SKIP},
    "Filter": _REJECTIONS,
    "PostFilter": _REJECTIONS,
    "PreScore": frozenset({Code.SKIP}),
    "Score": frozenset[Code](),
    "NormalizeScore": frozenset[Code](),
    "Reserve": _REJECTIONS,
    "Permit": _REJECTIONS | {Code.WAIT},
    "PreBindPreFlight": frozenset({Code.SKIP}),
    "PreBind": _REJECTIONS,
    "Bind": _REJECTIONS | {Code.SKIP},
    "AddPod": frozenset[Code](),
    "RemovePod": frozenset[Code](),
}
"""Which codes besides Success and Error an extension point may answer."""


class Asking:
    """Asks the plugins of one profile."""

    def __init__(self, profile_name: str, metrics: SchedulerMetrics) -> None:
        self._profile_name = profile_name
        self._metrics = metrics

    def ask(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[..., Any],
        *args: Any,
        state: CycleState | None = None,
    ) -> Any:
        """Call the plugin; an exception becomes an Error status."""
        timed = state is not None and state.record_plugin_metrics
        started = time.perf_counter() if timed else 0.0
        try:
            answer = method(*args)
        except Exception as exc:
            logger.exception("plugin %r failed at %s", plugin.name, point)
            answer = failure(plugin, point, exc)
        if timed:
            label = answer.code.label if isinstance(answer, Status) else Code.SUCCESS.label
            self._metrics.plugin_execution_duration.observe(
                (plugin.name, point, label), time.perf_counter() - started
            )
        return answer

    def tell(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[..., Any],
        state: CycleState,
        pod: Pod,
        node_name: str,
    ) -> None:
        """Call the plugin where no answer is expected; one that is given is a mistake worth a line."""
        answer = self.ask(plugin, point, method, state, pod, node_name, state=state)
        if answer is not None and not isinstance(answer, Status):
            logger.error("%s", nonsense(plugin, point, answer, "nothing").message)

    def status(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[..., Any],
        *args: Any,
        state: CycleState | None = None,
    ) -> Status:
        return self.checked(plugin, point, self.ask(plugin, point, method, *args, state=state))

    async def async_status(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[..., Any],
        state: CycleState,
        pod: Pod,
        node_name: str,
    ) -> Status:
        answer = self.ask(plugin, point, method, state, pod, node_name, state=state)
        if inspect.isawaitable(answer):
            try:
                answer = await answer
            except asyncio.CancelledError as exc:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # Not we are cancelled: something that the plugin awaited was.
                logger.exception("plugin %r failed at %s", plugin.name, point)
                answer = failure(plugin, point, exc)
            except Exception as exc:
                logger.exception("plugin %r failed at %s", plugin.name, point)
                answer = failure(plugin, point, exc)
        return self.checked(plugin, point, answer)

    def checked(self, plugin: Plugin, point: str, answer: object) -> Status:
        """The answer as a status that the point allows, attributed to the plugin."""
        if answer is None:
            return SUCCESS
        if not isinstance(answer, Status):
            return nonsense(plugin, point, answer, "a Status or None")
        if answer.is_success:
            return SUCCESS
        if answer.code == Code.ERROR:
            if isinstance(answer.cause, PluginError):
                return answer
            return failure(plugin, point, answer.cause or answer.message)
        if answer.code not in _ALLOWED[point]:
            return nonsense(plugin, point, answer.code.label, "another status code")
        return answer.by(plugin.name)

    def evaluated(self, plugin: Plugin, point: str, times: int = 1) -> None:
        self._metrics.plugin_evaluation.inc((plugin.name, point, self._profile_name), times)

    def observe(self, point: str, status: Status, started: float) -> None:
        self._metrics.extension_point_duration.observe(
            (point, status.code.label, self._profile_name), time.perf_counter() - started
        )


def failure(plugin: Plugin, point: str, cause: BaseException | str) -> Status:
    problem = cause if isinstance(cause, str) else f"{cause}" or type(cause).__name__
    error = PluginError(plugin.name, point, problem)
    if isinstance(cause, BaseException):
        error.__cause__ = cause
    return Status.error(error, plugin=plugin.name)


def nonsense(plugin: Plugin, point: str, answer: object, expected: str) -> Status:
    if inspect.iscoroutine(answer):  # an `async def` where none is awaited
        answer.close()
    return failure(plugin, point, f"answered {answer!r:.200} where {expected} is expected")
