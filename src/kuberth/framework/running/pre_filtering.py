"""The PreFilter phase.

In: a cycle state, a pod, a view of the cluster table. Out: whether any node may be feasible, and which ones
to evaluate. Answers for equal pods are reused.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import PreFilterPlugin, PreFilterResult
from kuberth.framework.plans import Plans
from kuberth.framework.running.calls import Calls
from kuberth.framework.status import SKIP, SUCCESS, Code, Status


class PreFilterOutcome(NamedTuple):
    """The result of PreFilter: a status, the nodes to evaluate (None: all), and the narrowing plugins."""

    status: Status
    node_names: frozenset[str] | None
    narrowed_by: frozenset[str]


_ALL_NODES: Final = PreFilterOutcome(SUCCESS, None, frozenset())


@dataclass(slots=True, eq=False)
class PreFiltering:
    """Calls PreFilter plugins."""

    plugins: Sequence[PreFilterPlugin]
    cluster: ClusterTable
    calls: Calls
    plans: Plans | None

    def run(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        """Call every PreFilter plugin; if a plugin skips, its Filter is not called either."""
        started = time.perf_counter()
        plugins, plans, info = self.plugins, self.plans, state.pod_info
        equal_pods = None
        if plans is not None and info is not None and state.uses_plans and not self.cluster.is_supposing:
            equal_pods = plans.find(info, nodes)
        state.equal_pods = None
        if equal_pods is not None:
            equal_pods.enter(state)
            plugins = equal_pods.pre_filter
        skipped: list[str] = []
        outcome = self._call_plugins(plugins, state, pod, nodes, skipped) if plugins else _ALL_NODES
        state.skip_filter = frozenset(skipped) if equal_pods is None else equal_pods.skip_filter(skipped)
        self.calls.observe("PreFilter", outcome.status, started)
        return outcome

    def _call_plugins(
        self,
        plugins: Sequence[PreFilterPlugin],
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        skipped: list[str],
    ) -> PreFilterOutcome:
        narrowed_by: set[str] = set()
        node_names: frozenset[str] | None = None
        outcome = SUCCESS
        timed = state.record_plugin_metrics
        for plugin in plugins:
            self.calls.evaluated(plugin.name, "PreFilter")
            answer = self.calls.call(plugin, "PreFilter", plugin.pre_filter, state, pod, nodes, timed=timed)
            if answer is SKIP:  # the usual case
                skipped.append(plugin.name)
                continue
            if isinstance(answer, PreFilterResult) and _is_narrowing(answer.node_names):
                if answer.node_names is None:
                    continue
                narrowed_by.add(plugin.name)
                left = frozenset(answer.node_names)
                node_names = left if node_names is None else node_names & left
                if not node_names:
                    outcome = Status.unresolvable(_nothing_left(narrowed_by))
                    state.missed_pre_filter = self._after(plugin)
                    break
                continue
            status = self.calls.checked(plugin, "PreFilter", answer)
            if status.code == Code.SKIP:
                skipped.append(plugin.name)
            elif status.code == Code.UNSCHEDULABLE:
                # Others may find that preemption cannot help, which is the stronger result.
                outcome = status
            elif not status.is_success:
                outcome = status
                node_names, narrowed_by = None, set()
                state.missed_pre_filter = self._after(plugin)
                break
        if outcome is SUCCESS and node_names is None:
            return _ALL_NODES
        return PreFilterOutcome(outcome, node_names, frozenset(narrowed_by))

    def _after(self, plugin: PreFilterPlugin) -> frozenset[str]:
        """The plugins that come after this one at PreFilter."""
        names = [each.name for each in self.plugins]
        return frozenset(names[names.index(plugin.name) + 1 :])


def _is_narrowing(node_names: object) -> bool:
    if node_names is None:
        return True
    return isinstance(node_names, Collection) and not isinstance(node_names, str | bytes)


def _nothing_left(plugins: Iterable[str]) -> str:
    names: Sequence[str] = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
