"""Filter: which nodes of a view take a pod, and why the others do not, promised pods considered.

In: a cycle state after PreFilter, a pod, a view of the cluster table. Out: a judgement. What a plan knows is
not asked again; what it does not know is asked of the plugins over as many nodes at once as can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import DependsOn, FilterPlugin, PreFilterExtensions
from kuberth.framework.nominator import Nominator
from kuberth.framework.plans import KeptVerdicts, KnownRejection, Plan, Plans, Rows
from kuberth.framework.profile import Profile
from kuberth.framework.promised_rows import PromisedRows
from kuberth.framework.running.asking import ADD_POD, FEW_NODES, REMOVE_POD, Phase, nonsense, raised
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.framework.verdict import Mask, Verdict
from kuberth.observe.metrics import SchedulerMetrics

_ONE: Final = np.ones(1, np.bool_)
_MAX_REJECTIONS: Final = 4096
"""Distinct statuses that a plan keeps; a plugin that words each one anew starts it afresh."""
_MAX_PRIORITIES: Final = 8
"""For so many priorities of equal pods a plan keeps what promises change."""


class _Block(NamedTuple):
    """Positions of a view that one plugin rejected."""

    plugin: str
    positions: NDArray[np.intp]
    verdict: Verdict
    codes: NDArray[np.int64]


class _KeptBlock(NamedTuple):
    """Positions that a plan knows to be rejected; by whom is worked out if someone wants to know."""

    kept: KeptVerdicts
    positions: NDArray[np.intp]
    rows: Rows

    def by_plugin(self) -> Iterator[_Block]:
        first = self.kept.first(self.rows)
        for known in np.unique(first).tolist():
            status = self.kept.rejections[known - 1].status
            positions = self.positions[first == known]
            codes = np.ones(len(positions), np.int64)
            yield _Block(status.plugin, positions, Verdict.choosing(codes, status), codes)


Blocks = list[_Block | _KeptBlock]


class _Filters(NamedTuple):
    """The filters that judge a pod: kept ones that look at the node's object, at its pods, and all others."""

    by_object: Sequence[FilterPlugin]
    by_pods: Sequence[FilterPlugin]
    asked: Sequence[FilterPlugin]


class Judgement(NamedTuple):
    """What Filter says of a view."""

    nodes: Nodes
    passing: Mask
    """Over the positions of the view."""
    blocks: Blocks
    """Who rejected the others, as they are."""
    promised: Blocks
    """Who rejected them as if the pods were there that they are promised to; that counts first."""


def _plain(blocks: Blocks) -> Iterator[_Block]:
    for block in blocks:
        if isinstance(block, _KeptBlock):
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
        prepared_anew = {
            plugin.name for plugin in profile.pre_filter if plugin.pre_filter_depends_on is not DependsOn.POD
        }
        # Whoever comes after a filter that has to be asked anew is asked anew too: which of the two rejects a
        # node first, and whether the second is asked at all, is then as it would be without a plan.
        kept = 0
        for plugin in profile.filter:
            if not _is_an_affair_of_one_node(plugin) or plugin.name in prepared_anew:
                break
            kept += 1
        self._kept_filters = profile.filter[:kept]
        self._asked_filters = profile.filter[kept:]
        self._object_filters = [
            plugin for plugin in self._kept_filters if not plugin.filter_depends_on.looks_at_pods
        ]
        self._pod_filters = [
            plugin for plugin in self._kept_filters if plugin.filter_depends_on.looks_at_pods
        ]
        self._filters: dict[frozenset[str], _Filters] = {}
        self._order = {plugin.name: order for order, plugin in enumerate(profile.filter)}
        self._promised_rows = PromisedRows(nominator, cluster)
        self._scores_look_at_pods = any(
            plugin.reads is not None and plugin.score_depends_on is DependsOn.NODE for plugin in profile.score
        )

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

    # Filter

    def judge(self, state: CycleState, pod: Pod, nodes: Nodes) -> Judgement | Status:
        """Which nodes of the view pass, nominated pods considered. An Error status aborts the search."""
        plan = None if self._cluster.is_supposing else state.plan
        judged = self._judge(state, pod, nodes) if plan is None else self._judge_by(plan, state, pod, nodes)
        if isinstance(judged, Status):
            return judged
        blocks, passing = judged
        promised = self._promised_rows.positions(nodes, pod_priority(pod))
        if not len(promised):
            return Judgement(nodes, passing, blocks, [])
        rejected = self._judge_promised(plan, state, pod, nodes, promised)
        if isinstance(rejected, Status):
            return rejected
        for block in rejected:
            passing[block.positions] = False
        return Judgement(nodes, passing, blocks, rejected)

    def run_filter(self, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis) -> Mask | Status:
        """The same, with why the others do not pass written to `diagnosis`."""
        judgement = self.judge(state, pod, nodes)
        if isinstance(judgement, Status):
            return judgement
        status = self.tell(judgement, diagnosis)
        return judgement.passing if status.is_success else status

    def tell(self, judgement: Judgement, diagnosis: Diagnosis) -> Status:
        """Write down why nodes do not pass; an Error if a plugin cannot say it."""
        told: set[int] = set()
        for blocks in (judgement.promised, judgement.blocks):
            for block in _plain(blocks):
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
        for block in _plain(judged[0]):
            plugin = self.profile.plugins[block.plugin]
            return self._asked.status(plugin, "Filter", block.verdict.status, int(block.codes[0]))
        return SUCCESS

    # For whoever asks about many nodes in a what-if of sums

    def reads_requests_alone(self, state: CycleState) -> bool:
        """Whether of the pods on a node no filter sees more than their number and the sums of requests."""
        return self.judges_nodes_alone(state) and not any(
            plugin.filter_depends_on is DependsOn.NODE and plugin.name not in state.skip_filter
            for plugin in self.profile.filter
        )

    @property
    def filters_of_node_objects(self) -> frozenset[str]:
        """Filters whose verdict on a node stays the same whatever pods come to it or leave it."""
        return frozenset(
            plugin.name
            for plugin in self.profile.filter
            if plugin.filter_depends_on in (DependsOn.POD, DependsOn.NODE_OBJECT)
        )

    def run_filter_as_is(
        self, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis | None = None
    ) -> Mask | Status:
        """As `run_filter`, of the pods in the table alone: promises are for the caller to consider."""
        judged = self._judge(state, pod, nodes)
        if isinstance(judged, Status):
            return judged
        blocks, passing = judged
        status = SUCCESS
        if diagnosis is not None:
            status = self.tell(Judgement(nodes, passing, blocks, []), diagnosis)
        return passing if status.is_success else status

    def promised_to_others(self, pod: Pod, nodes: Nodes) -> Mapping[int, Sequence[PodInfo]]:
        """By row, where there are any: the pods nominated for it which this pod must not push aside."""
        names, rows = self._nominator.nominated_nodes(), nodes.rows()
        if len(names) < len(rows):
            promised = (self._cluster.row_of(name) for name in names)
            rows = np.intersect1d(rows, [row for row in promised if row is not None]) if names else rows[:0]
        found = ((row, self._promised_to(pod, self._cluster.names[row])) for row in rows.tolist())
        return {row: pods for row, pods in found if pods}

    # With a plan

    def _judge_by(
        self, plan: Plan, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[Blocks, Mask] | Status:
        """As `_judge`, with rows that the plan knows taken from it."""
        if nodes.places is None:
            return self._judge(state, pod, nodes)
        if len(plan.verdicts.rejections) > _MAX_REJECTIONS:
            plan.places = None
        if plan.places is None:
            plan.looks_at_pods = self._scores_look_at_pods or any(
                plugin.filter_depends_on is DependsOn.NODE and plugin.name not in state.skip_filter
                for plugin in self._pod_filters
            )
        known = plan.known(self._cluster)
        unjudged = known.unjudged[nodes.places]
        if np.count_nonzero(unjudged) and not self._refresh(plan, nodes.rows()[unjudged], state, pod):
            return self._judge(state, pod, nodes)
        alive = known.passing[nodes.places]
        blocks: Blocks = []
        if np.count_nonzero(alive) < len(alive):
            positions = np.flatnonzero(~alive)
            blocks.append(_KeptBlock(plan.verdicts, positions, nodes.rows_at(positions)))
        alive = alive.copy()  # what is in the plan is not to be written to
        asked = self._filters_without(state.skip_filter).asked
        return self._ask_all(asked, state, pod, nodes, alive, blocks) if asked else (blocks, alive)

    def _filters_without(self, skipped: frozenset[str]) -> _Filters:
        """The filters that judge; pods rarely differ in that."""
        known = self._filters.get(skipped)
        if known is None:
            known = self._filters[skipped] = _Filters(
                *(
                    [plugin for plugin in plugins if plugin.name not in skipped]
                    for plugins in (self._object_filters, self._pod_filters, self._asked_filters)
                )
            )
        return known

    def _refresh(self, plan: Plan, rows: Rows, state: CycleState, pod: Pod) -> bool:
        """Judge rows anew. False: a plugin failed, and what comes of that is to be seen without a plan."""
        table, kept, known = self._cluster, plan.verdicts, plan.known(self._cluster)
        by_object, by_pods, _asked = self._filters_without(state.skip_filter)
        if len(rows) <= FEW_NODES:
            for row in rows.tolist():
                node, ids = NodeRow(table, row), kept.ids
                is_renewed = table.node_generation.item(row) > kept.judged_at.item(row)
                for part, plugins in ((KeptVerdicts.OBJECT, by_object), (KeptVerdicts.PODS, by_pods)):
                    if part == KeptVerdicts.PODS or is_renewed:
                        rejection = self._first_rejection(kept, plugins, state, pod, node)
                        if rejection is None:
                            return False
                        ids[part, row] = rejection
                kept.judged_at[row] = table.generation
                known.set(known.passing, row, not (ids.item(0, row) or ids.item(1, row)))
                known.set(known.unjudged, row, False)
            return True
        renewed = rows[table.node_generation.take(rows) > kept.judged_at.take(rows)]
        if not (
            self._judge_rows(kept, KeptVerdicts.OBJECT, by_object, renewed, state, pod)
            and self._judge_rows(kept, KeptVerdicts.PODS, by_pods, rows, state, pod)
        ):
            return False
        kept.judged_at[rows] = table.generation
        known.write(known.passing, rows, (kept.ids[0].take(rows) | kept.ids[1].take(rows)) == 0)
        known.write(known.unjudged, rows, False)
        return True

    def _judge_rows(
        self,
        kept: KeptVerdicts,
        part: int,
        plugins: Sequence[FilterPlugin],
        rows: Rows,
        state: CycleState,
        pod: Pod,
    ) -> bool:
        """What these plugins say of rows, written down. False: one of them failed."""
        if not plugins or not len(rows):
            return True
        ids = kept.ids[part]
        view = Nodes(self._cluster, rows)
        judged = self._ask_all(plugins, state, pod, view, view.live(), [])
        if isinstance(judged, Status):
            return False
        ids[rows] = 0
        for block in _plain(judged[0]):
            for code in np.unique(block.codes).tolist():
                status = self._asked.status(
                    self.profile.plugins[block.plugin], "Filter", block.verdict.status, code
                )
                if not status.is_rejected:
                    return False
                ids[rows[block.positions[block.codes == code]]] = kept.id_of(self._rejection(status))
        return True

    def _first_rejection(
        self,
        kept: KeptVerdicts,
        plugins: Sequence[FilterPlugin],
        state: CycleState,
        pod: Pod,
        node: NodeRow,
    ) -> int | None:
        """What is kept of one node; None: a plugin failed."""
        for plugin in plugins:
            if plugin.name in self._per_node_filter:
                self._asked.evaluated(plugin, "Filter")
                timed = state.record_plugin_metrics
                status = self._asked.status(plugin, "Filter", plugin.filter, state, pod, node, timed=timed)
            else:
                status = self._judge_one(state, pod, node, (plugin,))
            if status.is_rejected:
                return kept.id_of(self._rejection(status))
            if not status.is_success:
                return None
        return 0

    def _rejection(self, status: Status) -> KnownRejection:
        return KnownRejection(self._order[status.plugin], status)

    # Without

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
        if not np.count_nonzero(alive):
            return blocks, alive
        for plugin in plugins:
            if plugin.name in state.skip_filter:
                continue
            self._asked.evaluated(plugin, "Filter", len(nodes))
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
                for code in np.unique(codes).tolist():
                    status = self._asked.status(plugin, "Filter", verdict.status, code)
                    if status.is_success:
                        status = nonsense(plugin, "Filter", status, f"a rejection for code {code}")
                    if status.code == Code.ERROR:
                        return status
            blocks.append(_Block(plugin.name, positions, verdict, codes))
            alive = alive & ~rejected
            if not np.count_nonzero(alive):
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

    # Promised nodes

    def _judge_promised(
        self, plan: Plan | None, state: CycleState, pod: Pod, nodes: Nodes, promised: NDArray[np.intp]
    ) -> Blocks | Status:
        """Who rejects nodes that are promised to others, as if these were there already."""
        own = nodes.position(self._nominator.node_of(pod.metadata.uid))
        if not self.judges_nodes_alone(state):
            alone = promised.tolist()
            together = promised[:0]
        else:
            # What is promised to the pod itself is seen by no equal pod as it sees it.
            alone = [own] if own is not None and (promised == own).any() else []
            together = promised[promised != own] if alone else promised
        blocks: Blocks = []
        for position in alone:
            node = nodes.node(position)
            if not self._promised_to(pod, node.name):
                continue
            status = self._judge_with_nominated(state, pod, node)
            if status.code == Code.ERROR:
                return status
            if not status.is_success:
                one = np.ones(1, np.int64)
                verdict = Verdict.choosing(one, status)
                blocks.append(_Block(status.plugin, np.array([position], np.intp), verdict, one))
        if len(together):
            found = self._judge_together(plan, state, pod, nodes.at(together))
            if isinstance(found, Status):
                return found
            blocks += [block._replace(positions=together[block.positions]) for block in found]
        return blocks

    def _judge_together(
        self, plan: Plan | None, state: CycleState, pod: Pod, nodes: Nodes
    ) -> Blocks | Status:
        """Many promised nodes in one what-if, and with a plan only those where something changed."""
        if plan is None or self._filters_without(state.skip_filter).asked:
            judged = self._judge_as_promised(state, pod, nodes)
            return judged if isinstance(judged, Status) else judged[0]
        table, rows, priority = self._cluster, nodes.rows(), pod_priority(pod)
        plan.known(table)
        kept = plan.promised.get(priority)
        if kept is None or len(kept.rejections) > _MAX_REJECTIONS:
            if len(plan.promised) >= _MAX_PRIORITIES:
                plan.promised.clear()
            kept = plan.promised[priority] = KeptVerdicts(len(table.live))
        written = np.maximum(table.settled_generation.take(rows), self._promised_rows.changed.take(rows))
        stale = rows[written > kept.judged_at.take(rows)]
        if len(stale):
            with table.what_if() as what_if:
                for row in stale.tolist():
                    for nominated in self._promised_to(pod, table.names[row]):
                        what_if.add_pod(nominated, row)
                plugins = [plugin for plugin in self._kept_filters if plugin.name not in state.skip_filter]
                is_known = self._judge_rows(kept, KeptVerdicts.PODS, plugins, stale, state, pod)
            if not is_known:
                judged = self._judge_as_promised(state, pod, nodes)
                return judged if isinstance(judged, Status) else judged[0]
            kept.judged_at[stale] = table.generation
        positions = np.flatnonzero(kept.ids[KeptVerdicts.PODS].take(rows))
        return [_KeptBlock(kept, positions, rows[positions])] if len(positions) else []

    def _judge_as_promised(self, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[Blocks, Mask] | Status:
        with self._cluster.what_if() as what_if:
            for row in nodes.rows().tolist():
                for nominated in self._promised_to(pod, self._cluster.names[row]):
                    what_if.add_pod(nominated, row)
            return self._judge(state, pod, nodes)

    def _promised_to(self, pod: Pod, node_name: str) -> list[PodInfo]:
        priority = pod_priority(pod)
        return [
            nominated
            for nominated in self._nominator.nominated_on(node_name)
            if nominated.uid != pod.metadata.uid and nominated.priority >= priority
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


def _is_an_affair_of_one_node(plugin: FilterPlugin) -> bool:
    return plugin.reads is not None and plugin.filter_depends_on is not DependsOn.CLUSTER


def _is_over(verdict: Verdict, length: int) -> bool:
    codes = verdict.codes
    return isinstance(codes, np.ndarray) and codes.shape == (length,) and codes.dtype.kind in "iub"
