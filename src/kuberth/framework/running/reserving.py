"""The phase that takes the chosen node: Reserve, Permit, and Unreserve where it has to be given back."""

from __future__ import annotations

import time
from typing import Final

from kuberth.api.core import Pod
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import PermitResult
from kuberth.framework.running.asking import UNRESERVE, Phase, nonsense
from kuberth.framework.status import SUCCESS, Status

MAX_PERMIT_SECONDS: Final = 15 * 60.0
"""The longest a Permit plugin can keep a pod waiting."""

ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"


class Reserving(Phase):
    """Asks Reserve and Permit plugins."""

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """The first refusal, or success of all."""
        started = time.perf_counter()
        outcome = SUCCESS
        for plugin in self.profile.reserve:
            answer = self._asked.ask(
                plugin, "Reserve", plugin.reserve, state, pod, node_name, timed=state.record_plugin_metrics
            )
            if answer is not None:
                outcome = self._asked.checked(plugin, "Reserve", answer)
                if not outcome.is_success:
                    break
        self._asked.observe("Reserve", outcome, started)
        return outcome

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo Reserve of all plugins, in reverse order; a plugin that raises does not stop the others."""
        started = time.perf_counter()
        for plugin in reversed(self.profile.reserve):
            self._asked.tell(plugin, UNRESERVE, plugin.unreserve, state, pod, node_name)
        self._asked.observe(UNRESERVE, SUCCESS, started)

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, dict[str, float]]:
        """Approve, deny, or Wait with the time limit of every plugin that asked for it."""
        started = time.perf_counter()
        timeouts: dict[str, float] = {}
        outcome, why = SUCCESS, SUCCESS
        for plugin in self.profile.permit:
            answer = self._asked.ask(
                plugin, "Permit", plugin.permit, state, pod, node_name, timed=state.record_plugin_metrics
            )
            timeout = 0.0
            if isinstance(answer, PermitResult):
                answer, timeout = answer
            status = self._asked.checked(plugin, "Permit", answer)
            if status.is_wait:
                if not isinstance(timeout, int | float) or not timeout >= 0:
                    outcome = nonsense(plugin, "Permit", timeout, "a time limit in seconds")
                    break
                timeouts[plugin.name] = min(float(timeout), MAX_PERMIT_SECONDS)
                why = status
            elif not status.is_success:
                outcome = status
                break
        if outcome.is_success and timeouts:
            outcome = Status.wait(*why.reasons, ASKED_TO_WAIT)
        self._asked.observe("Permit", outcome, started)
        return outcome, timeouts if outcome.is_wait else {}
