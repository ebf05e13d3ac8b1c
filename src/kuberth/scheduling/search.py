"""Searches feasible nodes: PreFilter, the nominated node, then Filter over all other nodes.

In: a pod and the cluster table. Out: the nodes to score, and a diagnosis of all others. The scheduling cycle
and evaluation share this search.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.arrays import Mask
from kuberth.cluster.node_order import NodeOrder
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.plan import Places
from kuberth.framework.runner import Runner
from kuberth.framework.running.filtering import FilterResult
from kuberth.framework.status import SUCCESS, Status
from kuberth.scheduling.sampling import Evaluate, nodes_to_find


class Sampling(Protocol):
    """Chooses which feasible nodes are scored."""

    position: int
    """The start of the next search, which influences its result."""

    @property
    def diagnoses_all(self) -> bool:
        """Whether rejections are needed even if some nodes pass."""
        ...

    def choose(
        self, order: NodeOrder, enough: int, evaluate: Evaluate, /, *, nodes: int
    ) -> tuple[Places, int] | Status:
        """The places of nodes that pass, and how many were evaluated to find `enough` of them."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class NodeSearch:
    """Finds feasible nodes in one cluster table."""

    cluster: ClusterTable
    sampling: Sampling
    percentage: int | None = None
    """The percentage of nodes to score, for profiles that set none."""
    _enough_of: dict[tuple[int, int | None], int] = field(default_factory=dict, init=False)

    @property
    def position(self) -> int:
        """Where the next search starts."""
        return self.sampling.position

    @position.setter
    def position(self, position: int) -> None:
        self.sampling.position = position

    def run(
        self,
        state: CycleState,
        pod: Pod,
        runner: Runner,
        diagnosis: Diagnosis,
        *,
        nominated_first: bool = True,
        diagnoses_all: bool = False,
        may_repeat: bool = False,
    ) -> tuple[Nodes, int] | Status:
        """The nodes to score and the number of evaluated nodes, or a Status that aborts the cycle.

        `diagnoses_all`: write rejections to `diagnosis` even if some nodes pass. `may_repeat`: if an equal
        pod was rejected and nothing has changed since, the search ends with `state.kept_rejection`.
        """
        cluster = self.cluster
        only = None if state.group is None else state.group.nodes
        outcome = runner.pre_filtering.run(state, pod, cluster.all_nodes() if only is None else only)
        if outcome.narrowed_by:
            diagnosis.record_plugins(outcome.narrowed_by)
        if not outcome.status.is_success:
            if not outcome.status.is_rejected:
                return outcome.status
            diagnosis.reject_all(outcome.status)
            return self._none(), 0
        equal_pods = state.equal_pods
        if may_repeat and equal_pods is not None and equal_pods.rejection is not None:
            assert runner.plans is not None
            state.kept_rejection = runner.plans.rejection_after_pre_filter(state)
            if state.kept_rejection is not None:
                return self._none(), 0
        if outcome.node_names is not None:
            diagnosis.narrow(outcome.node_names, by=outcome.narrowed_by)
        if nominated_first and pod.status.nominated_node_name:
            nominated = self.nominated_node(state, pod, runner)
            if nominated is not None:
                return nominated, 1
        order = cluster.node_order()
        if only is not None:
            order = NodeOrder(only.rows(), cluster.slots)
        total = order.count
        if outcome.node_names is not None:
            named = cluster.nodes_named(outcome.node_names).rows()
            rows = named if only is None else named[np.isin(named, only.rows())]
            order = NodeOrder(rows, cluster.slots)
        if not order.count:
            return self._none(), 0
        diagnoses_all = diagnoses_all or self.sampling.diagnoses_all
        return self._filter(state, pod, runner, order, diagnosis, diagnoses_all=diagnoses_all, total=total)

    def still_passing(
        self, state: CycleState, pod: Pod, runner: Runner, names: Sequence[str]
    ) -> Sequence[str] | Status:
        """Which of the nodes are feasible now, evaluated with a new state."""
        outcome = runner.pre_filtering.run(state, pod, self.cluster.all_nodes())
        if not outcome.status.is_success:
            return () if outcome.status.is_rejected else outcome.status
        left = [
            (name, row)
            for name in names
            if (row := self.cluster.row_of(name)) is not None
            and (outcome.node_names is None or name in outcome.node_names)
        ]
        nodes = Nodes(self.cluster, np.array([row for _name, row in left], np.int64))
        result = runner.filtering.evaluate(state, pod, nodes)
        if isinstance(result, Status):
            return result
        return [name for (name, _row), passes in zip(left, result.passing, strict=True) if passes]

    def nominated_node(self, state: CycleState, pod: Pod, runner: Runner) -> Nodes | None:
        """The pod's nominated node if it is feasible; otherwise None, and all nodes are searched."""
        node = self.cluster.node_named(pod.status.nominated_node_name)
        if node is None:
            return None
        only = None if state.group is None else state.group.nodes
        if only is not None and node.row not in only.rows():
            return None
        passing = runner.filtering.run(state, pod, node.alone, Diagnosis())
        if isinstance(passing, Status) or not passing.any():
            return None
        return node.alone

    def _filter(
        self,
        state: CycleState,
        pod: Pod,
        runner: Runner,
        order: NodeOrder,
        diagnosis: Diagnosis,
        *,
        diagnoses_all: bool,
        total: int,
    ) -> tuple[Nodes, int] | Status:
        started = time.perf_counter()
        results: list[FilterResult] = []
        cluster, filtering = self.cluster, runner.filtering
        is_whole = order is cluster.node_order()

        def evaluate(stretch: slice) -> Mask | Status:
            nodes = Nodes(cluster, order.twice[stretch], stretch if is_whole else None)
            result = filtering.evaluate(state, pod, nodes)
            if isinstance(result, Status):
                return result
            results.append(result)
            return result.passing

        chosen = self.sampling.choose(order, self._enough(runner, order.count), evaluate, nodes=total)
        if isinstance(chosen, Status):
            filtering.observe(chosen, started)
            return chosen
        places, evaluated = chosen
        nodes = Nodes(cluster, order.twice[places], places if is_whole else None)
        status = SUCCESS
        if diagnoses_all or not len(nodes):
            for result in results:
                status = filtering.report(result, diagnosis)
                if not status.is_success:
                    break
        filtering.observe(status, started)
        return (nodes, evaluated) if status.is_success else status

    def _enough(self, runner: Runner, total: int) -> int:
        if not runner.profile.score and not runner.extenders.score_nodes:
            return 1  # any one will do
        percentage = runner.profile.percentage_of_nodes_to_score
        percentage = self.percentage if percentage is None else percentage
        enough = self._enough_of.get((total, percentage))
        if enough is None:
            self._enough_of.clear()
            enough = self._enough_of[total, percentage] = nodes_to_find(total, percentage)
        return enough

    def _none(self) -> Nodes:
        return Nodes(self.cluster, np.zeros(0, np.int64))
