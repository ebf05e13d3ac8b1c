"""The phase that finds nodes: PreFilter, Filter with promised pods considered, PostFilter.

In: a cycle state, a pod, a view of the cluster table. Out: which nodes pass, why the others do not, and what
making room achieved.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import (
    DependsOn,
    FilterPlugin,
    Plugin,
    PostFilterResult,
    PreFilterExtensions,
    PreFilterResult,
)
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import Profile
from kuberth.framework.running.asking import ADD_POD, REMOVE_POD, Phase, nonsense, raised
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.framework.verdict import Mask, Verdict
from kuberth.observe.metrics import SchedulerMetrics


class PreFilterOutcome(NamedTuple):
    """What PreFilter decided: a status, the only nodes left (None: all), and who narrowed them."""

    status: Status
    node_names: frozenset[str] | None
    narrowed_by: frozenset[str]


class _Block(NamedTuple):
    plugin: str
    positions: NDArray[np.intp]
    verdict: Verdict
    codes: NDArray[np.int64]


class Filtering(Phase):
    """Asks PreFilter, Filter and PostFilter plugins."""

    def __init__(
        self, profile: Profile, *, cluster: ClusterTable, nominator: Nominator, metrics: SchedulerMetrics
    ) -> None:
        super().__init__(profile, cluster=cluster, nominator=nominator, metrics=metrics)
        self._whole_table_filter = {
            plugin.name: type(plugin).filter_nodes is not FilterPlugin.filter_nodes
            for plugin in profile.filter
        }
        self._looking_beyond = tuple(
            plugin for plugin in profile.filter if plugin.filter_depends_on is DependsOn.CLUSTER
        )
        self._followers = tuple(
            plugin for plugin in profile.pre_filter if isinstance(plugin, PreFilterExtensions)
        )

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        """Ask every PreFilter plugin; a plugin that skips is not asked at Filter either."""
        started = time.perf_counter()
        skipped: set[str] = set()
        narrowed_by: set[str] = set()
        node_names: frozenset[str] | None = None
        outcome = SUCCESS
        for plugin in self.profile.pre_filter:
            self._asked.evaluated(plugin, "PreFilter")
            answer = self._asked.ask(
                plugin, "PreFilter", plugin.pre_filter, state, pod, nodes, timed=state.record_plugin_metrics
            )
            if isinstance(answer, PreFilterResult) and _is_narrowing(answer.node_names):
                if answer.node_names is None:
                    continue
                narrowed_by.add(plugin.name)
                left = frozenset(answer.node_names)
                node_names = left if node_names is None else node_names & left
                if not node_names:
                    outcome = Status.unresolvable(_nothing_left(narrowed_by))
                    break
                continue
            status = self._asked.checked(plugin, "PreFilter", answer)
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
            elif status.code == Code.UNSCHEDULABLE:
                # Others may find that no preemption can help, which is the stronger statement.
                outcome = status
            elif not status.is_success:
                outcome = status
                node_names, narrowed_by = None, set()
                break
        state.skip_filter = frozenset(skipped)
        self._asked.observe("PreFilter", outcome, started)
        return PreFilterOutcome(outcome, node_names, frozenset(narrowed_by))

    def run_add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeRow) -> Status:
        """Tell PreFilter data that `added` is on `node` now."""
        return self._follow(ADD_POD, "add_pod", state, pod, added, node)

    def run_remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeRow) -> Status:
        """Tell PreFilter data that `removed` left `node`."""
        return self._follow(REMOVE_POD, "remove_pod", state, pod, removed, node)

    def _follow(
        self, point: str, method: str, state: CycleState, pod: Pod, other: PodInfo, node: NodeRow
    ) -> Status:
        for plugin in self._followers:
            if plugin.name not in state.skip_filter:
                status = self._asked.status(
                    plugin,
                    point,
                    getattr(plugin, method),
                    state,
                    pod,
                    other,
                    node,
                    timed=state.record_plugin_metrics,
                )
                if not status.is_success:
                    return status
        return SUCCESS

    # Filter

    def run_filter(self, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis) -> Mask | Status:
        """Which nodes of the view pass, nominated pods considered; why the others do not goes to `diagnosis`.

        An Error status aborts the search.
        """
        blocks, passing = self._judge(state, pod, nodes)
        if isinstance(passing, Status):
            return passing
        promised = self._promised_positions(pod, nodes)
        for position in promised:
            status = self._judge_with_nominated(state, pod, nodes.node(position))
            if status.code == Code.ERROR:
                return status
            if not status.is_success:
                passing[position] = False
                diagnosis.set(nodes.name(position), status)
        for block in blocks:
            positions, codes = block.positions, block.codes
            if promised:
                keep = ~np.isin(positions, [p for p in promised if nodes.name(p) in diagnosis.explicit])
                positions, codes = positions[keep], codes[keep]
            if len(positions):
                try:
                    diagnosis.add_block(block.plugin, nodes.rows_at(positions), block.verdict, codes)
                except BaseException as exc:  # the plugin's function from code to status
                    return raised(self.profile.plugins[block.plugin], "Filter", exc)
        return passing

    def filter_status(
        self, state: CycleState, pod: Pod, node: NodeRow, *, with_nominated: bool = True
    ) -> Status:
        """The verdict on one node as it stands now, nominated pods considered: what preemption asks."""
        if with_nominated and self._promised_to(pod, node.name):
            status = self._judge_with_nominated(state, pod, node)
            if not status.is_success:
                return status
        return self._judge_one(state, pod, node)

    def admits(self, info: PodInfo, node: NodeRow, *, filters: Collection[str]) -> bool:
        """Whether these filters alone would let the pod onto the node."""
        state = CycleState(info)
        skipped = {plugin.name for plugin in self.profile.filter if plugin.name not in filters}
        for plugin in self.profile.pre_filter:
            if plugin.name in filters:
                answer = self._asked.ask(plugin, "PreFilter", plugin.pre_filter, state, info.pod, node.alone)
                if isinstance(answer, Status) and answer.is_rejected:
                    return False
                if isinstance(answer, Status) and answer.is_skip:
                    skipped.add(plugin.name)
        state.skip_filter = frozenset(skipped)
        return self._judge_one(state, info.pod, node).is_success

    def judges_nodes_alone(self, state: CycleState) -> bool:
        """Whether no verdict on a node depends on other nodes, so that a what-if may span many."""
        return not any(
            plugin.name not in state.skip_filter for plugin in (*self._looking_beyond, *self._followers)
        )

    def _judge_one(self, state: CycleState, pod: Pod, node: NodeRow) -> Status:
        blocks, passing = self._judge(state, pod, node.alone)
        if isinstance(passing, Status):
            return passing
        if blocks:
            block = blocks[0]
            plugin = self.profile.plugins[block.plugin]
            return self._asked.status(plugin, "Filter", block.verdict.status, int(block.codes[0]))
        return SUCCESS

    def _judge(self, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[list[_Block], Mask | Status]:
        """The first rejection of every node, plugin by plugin. Dead rows of the view count as not passing."""
        blocks: list[_Block] = []
        alive = nodes.live()
        for plugin in self.profile.filter:
            if plugin.name in state.skip_filter:
                continue
            self._asked.evaluated(plugin, "Filter", len(nodes))
            if self._whole_table_filter[plugin.name]:
                verdict = self._asked.ask(
                    plugin,
                    "Filter",
                    plugin.filter_nodes,
                    state,
                    pod,
                    nodes,
                    timed=state.record_plugin_metrics,
                )
                if verdict is None:
                    continue
                if isinstance(verdict, Status) and verdict.code == Code.ERROR:
                    return blocks, self._asked.checked(plugin, "Filter", verdict)
                if not isinstance(verdict, Verdict) or not _is_over(verdict, len(nodes)):
                    return blocks, nonsense(plugin, "Filter", verdict, f"a Verdict over {len(nodes)} nodes")
            else:
                answered = self._filter_each(plugin, state, pod, nodes, alive)
                if isinstance(answered, Status):
                    return blocks, answered
                verdict = answered
            rejected = (verdict.codes != 0) & alive
            positions = np.flatnonzero(rejected)
            if not len(positions):
                continue
            codes = verdict.codes[positions]
            if verdict.may_fail:
                for code in np.unique(codes).tolist():
                    status = self._asked.status(plugin, "Filter", verdict.status, code)
                    if status.is_success:
                        status = nonsense(plugin, "Filter", status, f"a rejection for code {code}")
                    if status.code == Code.ERROR:
                        return blocks, status
            blocks.append(_Block(plugin.name, positions, verdict, codes))
            alive = alive & ~rejected
            if not alive.any():
                break
        return blocks, alive

    def _filter_each(
        self, plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes, alive: Mask
    ) -> Verdict | Status:
        """The per-node form: asks only about nodes that are still in."""
        codes = np.zeros(len(nodes), np.int64)
        statuses: list[Status] = []
        for position in np.flatnonzero(alive).tolist():
            status = self._asked.status(
                plugin,
                "Filter",
                plugin.filter,
                state,
                pod,
                nodes.node(position),
                timed=state.record_plugin_metrics,
            )
            if status.code == Code.ERROR:
                return status
            if not status.is_success:
                statuses.append(status)
                codes[position] = len(statuses)
        return Verdict.choosing(codes, *statuses)

    def _promised_positions(self, pod: Pod, nodes: Nodes) -> list[int]:
        """Nodes of the view that are promised to other pods which this pod must not push aside."""
        found = []
        for name in self._nominator.nominated_nodes():
            position = nodes.position(name)
            if position is not None and self._promised_to(pod, name):
                found.append(position)
        return found

    def _promised_to(self, pod: Pod, node_name: str) -> list[PodInfo]:
        priority = pod_priority(pod)
        return [
            nominated
            for nominated in self._nominator.nominated_on(node_name)
            if nominated.uid != pod.metadata.uid and pod_priority(nominated.pod) >= priority
        ]

    def _judge_with_nominated(self, state: CycleState, pod: Pod, node: NodeRow) -> Status:
        """The verdict as if the pods nominated for the node were already there."""
        trial = state.clone()
        with self._cluster.what_if() as what_if:
            for nominated in self._promised_to(pod, node.name):
                what_if.add_pod(nominated, node.row)
                status = self.run_add_pod(trial, pod, nominated, node)
                if not status.is_success:
                    return status
            return self._judge_one(trial, pod, node)

    def run_post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Ask PostFilter plugins until one makes the pod schedulable or says that nothing can."""
        started = time.perf_counter()
        result: PostFilterResult | None = None
        reasons: list[str] = []
        rejector = ""
        outcome: Status | None = None
        for plugin in self.profile.post_filter:
            answer = self._asked.ask(
                plugin,
                "PostFilter",
                plugin.post_filter,
                state,
                pod,
                diagnosis,
                timed=state.record_plugin_metrics,
            )
            given, status = self._post_filter_answer(plugin, answer)
            if status.is_success or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                result, outcome = given, status
                break
            if status.code == Code.ERROR:
                result, outcome = None, status
                break
            result = given if given is not None else result
            reasons.extend(status.reasons)
            rejector = rejector or plugin.name
        if outcome is None:
            outcome = Status(Code.UNSCHEDULABLE, *reasons, plugin=rejector)
        self._asked.observe("PostFilter", outcome, started)
        return result, outcome

    def _post_filter_answer(self, plugin: Plugin, answer: object) -> tuple[PostFilterResult | None, Status]:
        if isinstance(answer, Status):
            return None, self._asked.checked(plugin, "PostFilter", answer)
        if isinstance(answer, tuple) and len(answer) == 2:
            given, status = answer
            if given is None or isinstance(given, PostFilterResult):
                return given, self._asked.checked(plugin, "PostFilter", status)
        return None, nonsense(plugin, "PostFilter", answer, "(PostFilterResult or None, Status or None)")

    # For whoever asks about many nodes in a what-if of sums

    def reads_requests_alone(self, state: CycleState) -> bool:
        """Whether of the pods on a node no filter sees more than their number and the sums of requests."""
        return self.judges_nodes_alone(state) and not any(
            plugin.filter_depends_on is DependsOn.NODE
            and not plugin.filter_reads_sums
            and plugin.name not in state.skip_filter
            for plugin in self.profile.filter
        )

    @property
    def filters_of_node_objects(self) -> frozenset[str]:
        """Filters whose verdict on a node stays the same whatever pods come to it or leave it."""
        return frozenset(
            plugin.name for plugin in self.profile.filter if plugin.filter_depends_on is DependsOn.NODE_OBJECT
        )

    def run_filter_as_is(
        self, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis | None = None
    ) -> Mask | Status:
        """As `run_filter`, of the pods in the table alone: promises are for the caller to consider."""
        blocks, passing = self._judge(state, pod, nodes)
        if isinstance(passing, Status) or diagnosis is None:
            return passing
        for block in blocks:
            try:
                diagnosis.add_block(block.plugin, nodes.rows_at(block.positions), block.verdict, block.codes)
            except BaseException as exc:  # the plugin's function from code to status
                return raised(self.profile.plugins[block.plugin], "Filter", exc)
        return passing

    def promised_to_others(self, pod: Pod, nodes: Nodes) -> Mapping[int, Sequence[PodInfo]]:
        """By row, where there are any: the pods nominated for it which this pod must not push aside."""
        names, rows = tuple(self._nominator.nominated_nodes()), nodes.rows()
        if len(names) < len(rows):
            promised = (self._cluster.row_of(name) for name in names)
            rows = np.intersect1d(rows, [row for row in promised if row is not None]) if names else rows[:0]
        found = ((row, self._promised_to(pod, self._cluster.names[row])) for row in rows.tolist())
        return {row: pods for row, pods in found if pods}


def _is_narrowing(node_names: object) -> bool:
    if node_names is None:
        return True
    return isinstance(node_names, Collection) and not isinstance(node_names, str | bytes)


def _is_over(verdict: Verdict, length: int) -> bool:
    codes = verdict.codes
    return isinstance(codes, np.ndarray) and codes.shape == (length,) and codes.dtype.kind in "iub"


def _nothing_left(plugins: Iterable[str]) -> str:
    names: Sequence[str] = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
