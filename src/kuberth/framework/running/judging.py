"""Filter without a plan: which nodes of a view take a pod, and who rejects the others first.

In: a cycle state after PreFilter, a pod, a view of the cluster table. Out: blocks of rejected positions and
the mask of those that pass. Plugins are asked over all nodes of the view at once wherever they can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import DependsOn, FilterPlugin, PreFilterExtensions
from kuberth.framework.nominator import Nominator
from kuberth.framework.plans import KeptVerdicts, Plans, Rows
from kuberth.framework.profile import Profile
from kuberth.framework.running.asking import ADD_POD, FEW_NODES, REMOVE_POD, Phase, nonsense, raised
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.framework.verdict import Mask, Verdict, distinct
from kuberth.observe.metrics import SchedulerMetrics

_ONE: Final = np.ones(1, np.bool_)


class Block(NamedTuple):
    """Positions of a view that one plugin rejected."""

    plugin: str
    positions: NDArray[np.intp]
    verdict: Verdict
    codes: NDArray[np.int64]


class KeptBlock(NamedTuple):
    """Positions that a plan knows to be rejected; by whom is worked out if someone wants to know."""

    kept: KeptVerdicts
    positions: NDArray[np.intp]
    rows: Rows

    def by_plugin(self) -> Iterator[Block]:
        first = self.kept.first(self.rows)
        for known in distinct(first):
            status = self.kept.rejections[known - 1].status
            positions = self.positions[first == known]
            codes = np.ones(len(positions), np.int64)
            yield Block(status.plugin, positions, Verdict.choosing(codes, status), codes)


Blocks = list[Block | KeptBlock]


class Judgement(NamedTuple):
    """What Filter says of a view."""

    nodes: Nodes
    passing: Mask
    """Over the positions of the view."""
    blocks: Blocks
    """Who rejected the others, as they are."""
    promised: Blocks
    """Who rejected them as if the pods were there that they are promised to; that counts first."""


def plain(blocks: Blocks) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, KeptBlock):
            yield from block.by_plugin()
        else:
            yield block


class Judging(Phase):
    """Asks Filter plugins."""

    def __init__(
        self,
        profile: Profile,
        *,
        cluster: ClusterTable,
        nominator: Nominator,
        metrics: SchedulerMetrics,
        plans: Plans | None = None,
    ) -> None:
        super().__init__(profile, cluster=cluster, nominator=nominator, metrics=metrics, plans=plans)
        self._whole_table_filter = {
            plugin.name: type(plugin).filter_nodes is not FilterPlugin.filter_nodes
            for plugin in profile.filter
        }
        self._per_node_filter = frozenset(
            plugin.name for plugin in profile.filter if type(plugin).filter is not FilterPlugin.filter
        )
        self._looking_beyond = frozenset(
            plugin.name for plugin in profile.filter if plugin.filter_depends_on is DependsOn.CLUSTER
        )
        self._followers = tuple(
            plugin for plugin in profile.pre_filter if isinstance(plugin, PreFilterExtensions)
        )
        self._together = self._looking_beyond | {plugin.name for plugin in self._followers}
        self._order = {plugin.name: order for order, plugin in enumerate(profile.filter)}

    # What plugins prepared at PreFilter follows a what-if

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

    def judges_nodes_alone(self, state: CycleState) -> bool:
        """Whether no verdict on a node depends on other nodes, so that a what-if may span many."""
        return self._together <= state.skip_filter

    def tell(self, judgement: Judgement, diagnosis: Diagnosis) -> Status:
        """Write down why nodes do not pass; an Error if a plugin cannot say it."""
        told: set[int] = set()
        for blocks in (judgement.promised, judgement.blocks):
            for block in plain(blocks):
                positions, codes = block.positions, block.codes
                if told and blocks is judgement.blocks:
                    keep = ~np.isin(positions, list(told))
                    positions, codes = positions[keep], codes[keep]
                if len(positions):
                    try:
                        rows = judgement.nodes.rows_at(positions)
                        diagnosis.add_block(block.plugin, rows, block.verdict, codes)
                    except BaseException as exc:  # the plugin's function from code to status
                        return raised(self.profile.plugins[block.plugin], "Filter", exc)
                if blocks is judgement.promised:
                    told.update(positions.tolist())
        return SUCCESS

    def objections(self, state: CycleState, pod: Pod, nodes: Nodes) -> Sequence[Block] | Status:
        """What every plugin has against the nodes of a view, also against those that others rejected before.

        For people: a cycle is content with the first who rejects a node. A Status: a plugin failed.
        """
        found: list[Block] = []
        for plugin in self.profile.filter:
            judged = self._ask_all((plugin,), state, pod, nodes, nodes.live(), [])
            if isinstance(judged, Status):
                return judged
            found += plain(judged[0])
        return found

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

    def _judge_one(
        self,
        state: CycleState,
        pod: Pod,
        node: NodeRow,
        plugins: Iterable[FilterPlugin] | None = None,
    ) -> Status:
        plugins = self.profile.filter if plugins is None else plugins
        judged = self._ask_all(plugins, state, pod, node.alone, _ONE.copy(), [])
        if isinstance(judged, Status):
            return judged
        for block in plain(judged[0]):
            plugin = self.profile.plugins[block.plugin]
            return self._asked.status(plugin, "Filter", block.verdict.status, int(block.codes[0]))
        return SUCCESS

    # Asking

    def _judge(self, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[Blocks, Mask] | Status:
        """The first rejection of every node, plugin by plugin. Dead rows of the view count as not passing."""
        return self._ask_all(self.profile.filter, state, pod, nodes, nodes.live(), [])

    def _ask_all(
        self,
        plugins: Iterable[FilterPlugin],
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        alive: Mask,
        blocks: Blocks,
    ) -> tuple[Blocks, Mask] | Status:
        left = int(np.count_nonzero(alive))
        if not left:
            return blocks, alive
        for plugin in plugins:
            if plugin.name in state.skip_filter:
                continue
            self._asked.evaluated(plugin, "Filter", left)
            if self._whole_table_filter[plugin.name] and not (
                len(nodes) <= FEW_NODES and plugin.name in self._per_node_filter
            ):
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
                    return self._asked.checked(plugin, "Filter", verdict)
                if not isinstance(verdict, Verdict) or not _is_over(verdict, len(nodes)):
                    return nonsense(plugin, "Filter", verdict, f"a Verdict over {len(nodes)} nodes")
            else:
                answered = self._filter_each(plugin, state, pod, nodes, alive)
                if isinstance(answered, Status):
                    return answered
                verdict = answered
            rejected = (verdict.codes != 0) & alive
            if not np.count_nonzero(rejected):
                continue
            positions = np.flatnonzero(rejected)
            codes = verdict.codes[positions]
            if verdict.may_fail:
                for code in distinct(codes):
                    status = self._asked.status(plugin, "Filter", verdict.status, code)
                    if status.is_success:
                        status = nonsense(plugin, "Filter", status, f"a rejection for code {code}")
                    if status.code == Code.ERROR:
                        return status
            blocks.append(Block(plugin.name, positions, verdict, codes))
            alive = alive & ~rejected
            left -= len(positions)
            if not left:
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


def _is_over(verdict: Verdict, length: int) -> bool:
    codes = verdict.codes
    return isinstance(codes, np.ndarray) and codes.shape == (length,) and codes.dtype.kind in "iub"
