"""Filter with promises: nodes are judged as if the pods were there that they are promised to.

In: a cycle state after PreFilter, a pod, a view of the cluster table. Out: a judgement, for the search and
for whoever asks about single nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import DependsOn
from kuberth.framework.nominator import Nominator
from kuberth.framework.plans import KeptVerdicts, Plan, Plans
from kuberth.framework.profile import Profile
from kuberth.framework.promised_rows import PromisedRows
from kuberth.framework.running.judging import Block, Blocks, Judgement, KeptBlock
from kuberth.framework.running.keeping import MAX_REJECTIONS, Keeping
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.framework.verdict import Mask, Verdict
from kuberth.observe.metrics import SchedulerMetrics

_MAX_PRIORITIES: Final = 8
"""For so many priorities of equal pods a plan keeps what promises change."""


class Promising(Keeping):
    """Asks Filter plugins with promised pods considered."""

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
        self._promised_rows = PromisedRows(nominator, cluster)

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

    def filter_status(
        self, state: CycleState, pod: Pod, node: NodeRow, *, with_nominated: bool = True
    ) -> Status:
        """The verdict on one node as it stands now, nominated pods considered: what preemption asks."""
        if with_nominated and self._promised_to(pod, node.name):
            status = self._judge_with_nominated(state, pod, node)
            if not status.is_success:
                return status
        return self._judge_one(state, pod, node)

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
                blocks.append(Block(status.plugin, np.array([position], np.intp), verdict, one))
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
        known = plan.nodes
        known.known(table)
        kept = known.promised.get(priority)
        if kept is None or len(kept.rejections) > MAX_REJECTIONS:
            if len(known.promised) >= _MAX_PRIORITIES:
                known.promised.clear()
            kept = known.promised[priority] = KeptVerdicts(len(table.live))
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
        return [KeptBlock(kept, positions, rows[positions])] if len(positions) else []

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
