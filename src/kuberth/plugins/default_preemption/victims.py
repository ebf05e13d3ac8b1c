"""Whom a pod would have to evict on a node: as few and as unimportant pods as possible.

In: nodes the pod does not fit on. Out: its victims on each, or in a diagnosis why the node is no use. The
question is asked on the cluster table itself, in a what-if that is taken back; of many nodes at once
where the verdict on one cannot depend on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.what_if import WhatIf
from kuberth.errors import KuberthError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.runner import Runner
from kuberth.framework.status import Code, Status
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.importance import importance


class Victims(NamedTuple):
    """The pods to evict, the most important first, and how many of them break a disruption budget."""

    pods: tuple[PodInfo, ...]
    budget_violations: int


class _Lane:
    """What happens on one node while the others are tried beside it."""

    __slots__ = ("condemned", "node", "possible", "protected")

    def __init__(self, node: NodeRow, possible: list[PodInfo]) -> None:
        self.node = node
        self.possible = possible
        """Who may have to go; later in the order in which they are spared if that can be."""
        self.protected = 0
        """How many of them, at the front, would break a budget."""
        self.condemned: list[tuple[PodInfo, bool]] = []
        """Who could not be spared, and whether that breaks a budget."""

    def rank(self, budgets: Budgets) -> None:
        """Those that a budget protects come first, and in each group the most important."""
        violating, others = budgets.split(sorted(self.possible, key=importance))
        self.possible = [*violating, *others]
        self.protected = len(violating)

    def victims(self) -> Victims:
        pods = sorted((info for info, _breaks in self.condemned), key=importance)
        return Victims(tuple(pods), sum(breaks for _info, breaks in self.condemned))


class VictimSearch:
    """The search for one pod, on rows that hold at least one pod of lower priority."""

    def __init__(
        self,
        runner: Runner,
        state: CycleState,
        pod: Pod,
        *,
        cluster: ClusterTable,
        priority: int,
        budgets: Budgets,
        diagnosis: Diagnosis,
    ) -> None:
        self._runner = runner
        self._state = state
        self._pod = pod
        self._cluster = cluster
        self._priority = priority
        self._budgets = budgets
        self._diagnosis = diagnosis
        self.spans_nodes = runner.judges_nodes_alone(state)
        """Whether several rows can be tried at once."""
        self.errors: list[str] = []

    def on_rows(self, rows: Sequence[int]) -> Sequence[Victims | None]:
        """Per row whom to evict so that the pod fits, or None. To be asked of one row unless `spans_nodes`.

        All pods of lower priority leave; then each one that the pod can share the node with comes back,
        the most important first.
        """
        found: dict[int, Victims] = {}
        with self._cluster.what_if() as what_if:
            trial = _Trial(
                self._runner, self._state.clone(), self._pod, cluster=self._cluster, what_if=what_if
            )
            try:
                lanes = [self._emptied(row, trial) for row in rows]
                for lane in (staying := self._fitting(trial, lanes)):
                    lane.rank(self._budgets)
                self._spare(trial, staying)
            except _FollowingError as failure:
                self._note(NodeRow(self._cluster, rows[0]), failure.status)
                return [None] * len(rows)
            for lane in staying:
                if lane.condemned:
                    found[lane.node.row] = lane.victims()
                else:
                    name = lane.node.name
                    self._note(lane.node, Status.error(f'expected at least one victim pod on node "{name}"'))
        return [found.get(row) for row in rows]

    def _emptied(self, row: int, trial: _Trial) -> _Lane:
        node = NodeRow(self._cluster, row)
        possible = [info for info in node.pods if info.priority < self._priority]
        for info in possible:
            trial.remove(info, node)
        return _Lane(node, possible)

    def _fitting(self, trial: _Trial, lanes: Sequence[_Lane]) -> Sequence[_Lane]:
        """The lanes where the pod fits once all possible victims are gone; the others are told about."""
        if len(lanes) > 1:
            passing = trial.fits_on_each([lane.node.row for lane in lanes], self._diagnosis)
            if passing is not None:
                return [lane for lane, fits in zip(lanes, passing, strict=True) if fits]
        fitting = []
        for lane in lanes:
            status = trial.status_on(lane.node)
            if status.is_success:
                fitting.append(lane)
            else:
                self._note(lane.node, status)
        return fitting

    def _spare(self, trial: _Trial, lanes: Sequence[_Lane]) -> None:
        """In the n-th round every node gets its n-th possible victim back, if the pod still fits then."""
        turn = 0
        while lanes := [lane for lane in lanes if turn < len(lane.possible)]:
            for lane in lanes:
                trial.add(lane.possible[turn], lane.node)
            for lane, fits in zip(lanes, trial.fits(lane.node for lane in lanes), strict=True):
                if not fits:
                    trial.remove(lane.possible[turn], lane.node)
                    lane.condemned.append((lane.possible[turn], turn < lane.protected))
            turn += 1

    def _note(self, node: NodeRow, status: Status) -> None:
        self._diagnosis.set(node.name, status)
        if status.code == Code.ERROR:
            self.errors.append(status.message)


class _FollowingError(KuberthError):
    """A plugin could not bring its PreFilter data in step with a what-if."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class _Trial:
    """A what-if in which pods leave and come back, and PreFilter data follows."""

    def __init__(
        self, runner: Runner, state: CycleState, pod: Pod, *, cluster: ClusterTable, what_if: WhatIf
    ) -> None:
        self._runner = runner
        self._state = state
        self._pod = pod
        self._cluster = cluster
        self._what_if = what_if

    def remove(self, info: PodInfo, node: NodeRow) -> None:
        self._what_if.remove_pod(info, node.row)
        self._expect(self._runner.run_remove_pod(self._state, self._pod, info, node))

    def add(self, info: PodInfo, node: NodeRow) -> None:
        self._what_if.add_pod(info, node.row)
        self._expect(self._runner.run_add_pod(self._state, self._pod, info, node))

    def _expect(self, status: Status) -> None:
        if not status.is_success:
            raise _FollowingError(status)

    def status_on(self, node: NodeRow) -> Status:
        """Whether the pod fits on the node as things stand, pods nominated for it considered."""
        return self._runner.filter_status(self._state, self._pod, node)

    def fits(self, nodes: Iterable[NodeRow]) -> Sequence[bool]:
        nodes = tuple(nodes)
        if len(nodes) > 1:
            passing = self.fits_on_each([node.row for node in nodes], Diagnosis())
            if passing is not None:
                return passing
        return [self.status_on(node).is_success for node in nodes]

    def fits_on_each(self, rows: Sequence[int], diagnosis: Diagnosis) -> Sequence[bool] | None:
        """The same for many nodes at once. None: a plugin failed, so each has to be asked on its own."""
        view = Nodes(self._cluster, np.array(rows, np.int64))
        passing = self._runner.run_filter(self._state, self._pod, view, diagnosis)
        return None if isinstance(passing, Status) else passing.tolist()
