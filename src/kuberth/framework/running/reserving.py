"""The Reserve and Permit phases, with Unreserve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from kuberth.api.core import Pod
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import PermitPlugin, PermitResult, ReservePlugin
from kuberth.framework.running.calls import UNRESERVE, Calls, invalid_answer
from kuberth.framework.status import SUCCESS, Status

MAX_PERMIT_SECONDS: Final = 15 * 60.0
"""The maximum timeout of a Permit plugin."""

ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"


class Reserving:
    """Calls Reserve and Permit plugins."""

    def __init__(
        self, reserve: Sequence[ReservePlugin], permit: Sequence[PermitPlugin], *, calls: Calls
    ) -> None:
        self._reserve = reserve
        self._permit = permit
        self._calls = calls
        self._concerned: dict[frozenset[str], Sequence[ReservePlugin]] = {}

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Reserve; the first rejection, or success."""
        started = time.perf_counter()
        outcome = SUCCESS
        for plugin in self._plugins(state):
            answer = self._calls.call(
                plugin, "Reserve", plugin.reserve, state, pod, node_name, timed=state.record_plugin_metrics
            )
            if answer is not None:
                outcome = self._calls.checked(plugin, "Reserve", answer)
                if not outcome.is_success:
                    break
        self._calls.observe("Reserve", outcome, started)
        return outcome

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run Unreserve of all plugins in reverse order; a plugin that raises does not stop the others."""
        started = time.perf_counter()
        for plugin in reversed(self._plugins(state)):
            self._calls.notify(plugin, UNRESERVE, plugin.unreserve, state, pod, node_name)
        self._calls.observe(UNRESERVE, SUCCESS, started)

    def _plugins(self, state: CycleState) -> Sequence[ReservePlugin]:
        """The plugins that act on the pod."""
        if state.equal_pods is None or not state.equal_pods.unconcerned:
            return self._reserve
        unconcerned = state.equal_pods.unconcerned
        found = self._concerned.get(unconcerned)
        if found is None:
            found = self._concerned[unconcerned] = [
                plugin for plugin in self._reserve if plugin.name not in unconcerned
            ]
        return found

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, dict[str, float]]:
        """Run Permit: success, a rejection, or Wait with the timeouts of all plugins that hold the pod."""
        started = time.perf_counter()
        timeouts: dict[str, float] = {}
        outcome, why = SUCCESS, SUCCESS
        for plugin in self._permit:
            answer = self._calls.call(
                plugin, "Permit", plugin.permit, state, pod, node_name, timed=state.record_plugin_metrics
            )
            timeout = 0.0
            if isinstance(answer, PermitResult):
                answer, timeout = answer
            elif isinstance(answer, Status) and answer.is_wait:
                outcome = invalid_answer(plugin, "Permit", answer, "PermitResult.wait(seconds)")
                break
            status = self._calls.checked(plugin, "Permit", answer)
            if status.is_wait:
                if not isinstance(timeout, int | float) or not timeout >= 0:
                    outcome = invalid_answer(plugin, "Permit", timeout, "a time limit in seconds")
                    break
                timeouts[plugin.name] = min(float(timeout), MAX_PERMIT_SECONDS)
                why = status
            elif not status.is_success:
                outcome = status
                break
        if outcome.is_success and timeouts:
            outcome = Status.wait(*why.reasons, ASKED_TO_WAIT)
        self._calls.observe("Permit", outcome, started)
        return outcome, timeouts if outcome.is_wait else {}
