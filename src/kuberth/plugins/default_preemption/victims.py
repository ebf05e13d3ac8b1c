"""The victims of a pod on a node: as few and of as low priority as possible.

In: rows on which the pod does not fit. Out: in a plan, the victims on each row, or why preemption does not
help there. This is evaluated on the cluster table in a what-if; for many rows at once if the verdict on one
cannot depend on the others.
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
    refused_by_requests,
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
        """Evaluate the rows; only one if verdicts may depend on other rows.

        All pods of lower priority are removed; then, by descending importance, each one is added again if the
        pod still fits.
        """
        if self._sums_do:
            try:
                self._try(sums_trial, rows)
            except TrialError:
                pass  # a plugin failed: evaluating rows one by one shows for which
            else:
                return
        try:
            self._try(pod_trial, rows)
        except TrialError as failure:
            self._plan.refuse(rows, failure.status, self._cluster)

    def refuse_by_requests(self, rows: Rows) -> None:
        """Refuse the rows where requests alone show that no preemption helps."""
        for refused, status in refused_by_requests(self._preemptor, rows).rows():
            self._plan.refuse(refused, status, self._cluster)

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
        """Victims protected by a budget come first; each group is sorted by importance."""
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
    if violations:  # otherwise they were evicted in the order of importance
        pods.sort(key=importance)
    return Victims(tuple(pods), violations)
