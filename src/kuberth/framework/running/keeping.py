"""Filter with a plan: rows that equal pods met are not judged again while nobody wrote to them.

In: a plan, and a view of a stretch of the node order. Out: the same blocks and mask as without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import DependsOn, FilterPlugin
from kuberth.framework.nominator import Nominator
from kuberth.framework.plans import KeptVerdicts, KnownNodes, KnownRejection, Plan, Plans, Rows
from kuberth.framework.profile import Profile
from kuberth.framework.running.asking import FEW_NODES
from kuberth.framework.running.judging import Blocks, Judging, KeptBlock, plain
from kuberth.framework.status import Status
from kuberth.framework.verdict import Mask, distinct
from kuberth.observe.metrics import SchedulerMetrics

MAX_REJECTIONS: Final = 4096
"""Distinct statuses that a plan keeps; a plugin that words each one anew starts it afresh."""


class _Filters(NamedTuple):
    """The filters that judge a pod: kept ones that look at the node's object, at its pods, and all others."""

    by_object: Sequence[FilterPlugin]
    by_pods: Sequence[FilterPlugin]
    asked: Sequence[FilterPlugin]


class Keeping(Judging):
    """Asks Filter plugins about what no plan knows."""

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
        if plans is not None:
            plans.keep_filters(self._kept_filters)
        self._object_filters = [
            plugin for plugin in self._kept_filters if not plugin.filter_depends_on.looks_at_pods
        ]
        self._pod_filters = [
            plugin for plugin in self._kept_filters if plugin.filter_depends_on.looks_at_pods
        ]
        self._filters: dict[frozenset[str], _Filters] = {}
        self._scores_look_at_pods = any(
            plugin.reads is not None and plugin.score_depends_on is DependsOn.NODE for plugin in profile.score
        )

    def _judge_by(
        self, plan: Plan, state: CycleState, pod: Pod, nodes: Nodes
    ) -> tuple[Blocks, Mask] | Status:
        """As `_judge`, with rows that the plan knows taken from it."""
        if nodes.places is None:
            return self._judge(state, pod, nodes)
        kept = plan.nodes
        if len(kept.verdicts.rejections) > MAX_REJECTIONS:
            kept.places = None
        if kept.places is None:
            kept.looks_at_pods = self._scores_look_at_pods or any(
                plugin.filter_depends_on is DependsOn.NODE and plugin.name not in state.skip_filter
                for plugin in self._pod_filters
            )
        known = kept.known(self._cluster)
        unjudged = known.unjudged[nodes.places]
        if np.count_nonzero(unjudged):
            rows = nodes.rows()[unjudged]
            more = known.with_neighbours(rows, nodes.places, known.to_judge, kept.verdicts.judged_at)
            # A plugin that fails for a neighbour has not failed for this pod.
            if (more is None or not self._refresh(kept, more, state, pod)) and not self._refresh(
                kept, rows, state, pod
            ):
                return self._judge(state, pod, nodes)
        alive = known.passing[nodes.places]
        blocks: Blocks = []
        if np.count_nonzero(alive) < len(alive):
            positions = np.flatnonzero(~alive)
            blocks.append(KeptBlock(kept.verdicts, positions, nodes.rows_at(positions)))
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

    def _refresh(self, nodes: KnownNodes, rows: Rows, state: CycleState, pod: Pod) -> bool:
        """Judge rows anew. False: a plugin failed, and what comes of that is to be seen without a plan."""
        table, kept, known = self._cluster, nodes.verdicts, nodes.places
        assert known is not None
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
                known.note_verdict(row, passes=not (ids.item(0, row) or ids.item(1, row)))
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
        for block in plain(judged[0]):
            for code in distinct(block.codes):
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
                answer = self._asked.ask(plugin, "Filter", plugin.filter, state, pod, node, timed=timed)
                if answer is None:  # as nearly always
                    continue
                status = self._asked.checked(plugin, "Filter", answer)
            else:
                status = self._judge_one(state, pod, node, (plugin,))
            if status.is_rejected:
                return kept.id_of(self._rejection(status))
            if not status.is_success:
                return None
        return 0

    def _rejection(self, status: Status) -> KnownRejection:
        return KnownRejection(self._order[status.plugin], status)


def _is_an_affair_of_one_node(plugin: FilterPlugin) -> bool:
    return plugin.reads is not None and plugin.filter_depends_on is not DependsOn.CLUSTER
