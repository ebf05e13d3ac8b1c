"""The victims of a pod on a node: as few and as unimportant pods as possible.

In: rows the pod does not fit on. Out: in a plan, its victims on each, or why the row is no use. The question
is asked on the cluster table itself, in a what-if that is taken back; of many rows at once where the verdict
on one cannot depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from kuberth.cluster.arrays import Rows
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.status import Status
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.importance import importance
from kuberth.plugins.default_preemption.plans import VictimPlan, Victims
from kuberth.plugins.default_preemption.trials import (
    Preemptor,
    Trial,
    TrialError,
    VictimLane,
    pod_trial,
    sums_trial,
)

Attempt = Callable[[Preemptor, Rows], AbstractContextManager[Trial]]


class VictimSearch:
    """The search for one pod, on rows that hold at least one pod of lower priority."""

    def __init__(self, preemptor: Preemptor, *, budgets: Budgets, plan: VictimPlan) -> None:
        self._preemptor = preemptor
        self._cluster = preemptor.cluster
        self._budgets = budgets
        self._plan = plan
        self._sums_do = preemptor.runner.filtering.reads_requests_alone(preemptor.state)

    def judge(self, rows: Rows) -> None:
        """Find out about the rows; about one only, unless no verdict on a row depends on another row.

        All pods of lower priority leave; then each one that the pod can share the node with comes back,
        the most important first.
        """
        if self._sums_do:
            try:
                self._try(sums_trial, rows)
            except TrialError:
                pass  # a plugin failed: judging one by one shows for which row
            else:
                return
        try:
            self._try(pod_trial, rows)
        except TrialError as failure:
            self._plan.refuse(rows, failure.status, self._cluster)

    def _try(self, attempt: Attempt, rows: Rows) -> None:
        diagnosis = Diagnosis()
        with attempt(self._preemptor, rows) as trial:
            lanes = trial.fitting(diagnosis)
            for lane in lanes:
                self._rank(lane)
            trial.begin(lanes)
            turn, playing = 0, lanes
            while playing := [lane for lane in playing if turn < len(lane.possible)]:
                for lane, spared in zip(playing, trial.spare(playing, turn), strict=True):
                    if not spared:
                        lane.condemned.append((lane.possible[turn], turn < lane.protected))
                turn += 1
        self._keep(diagnosis, lanes)

    def _rank(self, lane: VictimLane) -> None:
        """Those that a budget protects come first, and in each group the most important."""
        split = self._budgets.split(sorted(lane.possible, key=importance))
        lane.possible = [*split.violating, *split.others]
        lane.protected = len(split.violating)
        self._plan.cover(lane.row, split.covering)

    def _keep(self, diagnosis: Diagnosis, lanes: Sequence[VictimLane]) -> None:
        cluster, plan = self._cluster, self._plan
        for rows, status in diagnosis.rows():
            plan.refuse(rows, status, cluster)
        for name, status in diagnosis.explicit.items():
            if (row := cluster.row_of(name)) is not None:
                plan.refuse(np.array([row], np.int64), status, cluster)
        if found := {lane.row: _victims(lane) for lane in lanes if lane.condemned}:
            plan.accept(found, cluster)
        for lane in lanes:
            if not lane.condemned:
                name = cluster.names[lane.row]
                no_victim = Status.error(f'expected at least one victim pod on node "{name}"')
                plan.refuse(np.array([lane.row], np.int64), no_victim, cluster)


def _victims(lane: VictimLane) -> Victims:
    pods = [info for info, _breaks in lane.condemned]
    violations = sum(breaks for _info, breaks in lane.condemned)
    if violations:  # otherwise they went in the order of importance
        pods.sort(key=importance)
    return Victims(tuple(pods), violations)
