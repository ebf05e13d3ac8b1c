"""The phase that binds: PreBind with its pre-flight, Bind, PostBind. The only one that awaits."""

from __future__ import annotations

import time

from kuberth.api.core import Pod
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.running.asking import PRE_FLIGHT, Phase
from kuberth.framework.status import SKIP, SUCCESS, Code, Status


class BindingPoints(Phase):
    """Asks PreBind, Bind and PostBind plugins."""

    def run_pre_bind_pre_flights(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip: no PreBind plugin has anything to do. Success: at least one has."""
        started = time.perf_counter()
        skipped: set[str] = set()
        outcome = SKIP
        for plugin in self.profile.pre_bind:
            status = self._asked.status(
                plugin,
                PRE_FLIGHT,
                plugin.pre_bind_pre_flight,
                state,
                pod,
                node_name,
                timed=state.record_plugin_metrics,
            )
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
            elif status.is_success:
                outcome = SUCCESS
            else:
                outcome = status
                break
        state.skip_pre_bind = frozenset(skipped)
        self._asked.observe(PRE_FLIGHT, outcome, started)
        return outcome

    async def run_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        started = time.perf_counter()
        outcome = SUCCESS
        for plugin in self.profile.pre_bind:
            if plugin.name in state.skip_pre_bind:
                continue
            outcome = await self._asked.async_status(
                plugin, "PreBind", plugin.pre_bind, state, pod, node_name
            )
            if not outcome.is_success:
                break
        self._asked.observe("PreBind", outcome, started)
        return outcome

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Ask bind plugins in order until one does not Skip. All skipping is a Skip: no one bound the pod."""
        started = time.perf_counter()
        outcome = SKIP
        for plugin in self.profile.bind:
            outcome = await self._asked.async_status(plugin, "Bind", plugin.bind, state, pod, node_name)
            if outcome.code != Code.SKIP:
                break
        self._asked.observe("Bind", outcome, started)
        return outcome

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        started = time.perf_counter()
        for plugin in self.profile.post_bind:
            self._asked.tell(plugin, "PostBind", plugin.post_bind, state, pod, node_name)
        self._asked.observe("PostBind", SUCCESS, started)
