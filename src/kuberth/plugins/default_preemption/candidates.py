"""The candidates of a preemption, and the one with the lowest cost.

In: the diagnosis of a pod that fits nowhere. Out: candidate rows with their victims, the best of them, or why
preemption does not help. The victims of a row are as few and of as low priority as possible; they are found
on the cluster table in a what-if, for many rows at once if the verdict on one cannot depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kuberth.cluster.arrays import Rows
from kuberth.cluster.table import ClusterTable
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.plans import VictimPlan, Victims, importance
from kuberth.plugins.default_preemption.trials import (
    Preemptor,
    Trial,
    TrialError,
    VictimLane,
    pod_trial,
    refused_by_requests,
    sums_trial,
)

NOT_HELPFUL: Final = Status.unresolvable("Preemption is not helpful for scheduling")
"""The status of nodes where removing pods cannot change the verdict."""

NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming pod")

_MIN_BATCH: Final = 16
"""How many nodes are tried together when only a few candidates are missing."""

NO_ROWS: Final[Rows] = np.zeros(0, np.int64)


class Candidate(NamedTuple):
    """A node on which the pod would fit, and the victims there."""

    node_name: str
    victims: Victims


@dataclass(slots=True, eq=False)
class Search:
    """The result of a search: candidates, and the rejections of the other rows."""

    plan: VictimPlan
    cluster: ClusterTable
    rows: Rows
    """The candidates, in the order in which they were found."""
    tried: Rows
    without_victims: Rows

    def candidate(self, row: int) -> Candidate:
        """One of `rows`."""
        return Candidate(self.cluster.names[row], self.plan.victims_at(row))

    def best(self) -> Candidate | None:
        """The candidate with the lowest cost, the first among equals; None if there is none."""
        return self.candidate(self.plan.cheapest(self.rows)) if len(self.rows) else None

    @property
    def error(self) -> str:
        """All distinct errors in one line."""
        errors = self.plan.errors(self.tried)
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""

    def diagnosis(self) -> Diagnosis:
        """The status of the nodes that are not candidates."""
        diagnosis = Diagnosis()
        diagnosis.absent_status = NOT_HELPFUL
        if len(self.without_victims):
            ones = np.ones_like(self.without_victims)
            diagnosis.add_block("", self.without_victims, Verdict.choosing(ones, NO_VICTIMS), ones)
        self.plan.report(self.tried, diagnosis)
        return diagnosis


def resolvable_rows(diagnosis: Diagnosis, cluster: ClusterTable) -> Rows:
    """Rows with rejections that removing pods may resolve, in the order in which nodes are tried."""
    order = cluster.order()
    mask = np.full(cluster.slots, diagnosis.absent_status.code == Code.UNSCHEDULABLE, np.bool_)
    for rows, status in diagnosis.rows():
        mask[rows] = status.code == Code.UNSCHEDULABLE
    for name, status in diagnosis.explicit.items():
        row = cluster.row_of(name)
        if row is not None:
            mask[row] = status.code == Code.UNSCHEDULABLE
    return order[mask[order]]


def _next_size(tried: int, found: int, *, enough: int) -> int:
    """How many rows to try next, assuming that candidates stay as frequent."""
    missing = enough - found
    if tried and missing > 0:
        missing = missing * tried // max(found, 1)
    return max(missing if missing > 0 else tried, _MIN_BATCH)


def _first_enough(plan: VictimPlan, rows: Rows, *, enough: int) -> Rows:
    """The candidates up to the row at which there were enough: first those without a budget violation."""
    harmless, harmful = plan.candidates(rows)
    harmful &= np.cumsum(harmful) <= enough
    found = harmless | harmful
    satisfied = (np.cumsum(found) >= enough) & (np.cumsum(harmless) > 0)
    end = int(np.argmax(satisfied)) + 1 if satisfied.any() else len(rows)
    return np.concatenate((rows[:end][harmless[:end]], rows[:end][harmful[:end]]))


Attempt = Callable[[Preemptor, Rows], AbstractContextManager[Trial]]


class VictimSearch:
    """The search for one pod."""

    def __init__(self, preemptor: Preemptor, *, budgets: Budgets, plan: VictimPlan) -> None:
        """The plan must be up to date."""
        self._preemptor = preemptor
        self._cluster = preemptor.cluster
        self._budgets = budgets
        self._plan = plan
        self._reads_sums = preemptor.runner.filtering.reads_requests_alone(preemptor.state)

    def search(self, rows: Rows, *, enough: int) -> Search:
        """Try `rows` until `enough` candidates are found, at least one of them without a budget violation."""
        plan, preemptor = self._plan, self._preemptor
        with_victims = self._cluster.rows_with_priority_below(preemptor.priority)[rows]
        without_victims, rows = rows[~with_victims], rows[with_victims]
        is_alone = preemptor.runner.filtering.evaluates_nodes_independently(preemptor.state)
        if not is_alone:
            # Requests alone show for some rows that no preemption helps.
            for refused, status in refused_by_requests(preemptor, rows[plan.stale(rows)]).rows():
                plan.refuse(refused, status)
        stale = plan.stale(rows)
        tried, harmless, harmful = 0, 0, 0
        while tried < len(rows) and not (harmless and harmless + min(harmful, enough) >= enough):
            if is_alone:
                size = _next_size(tried, harmless + harmful, enough=enough)
            else:  # up to the next row that has to be evaluated
                size = int(stale[tried:].argmax()) + 1 if stale[tried:].any() else len(rows)
            batch = rows[tried : tried + size]
            unknown = batch[stale[tried : tried + size]]
            if len(unknown):
                self._evaluate(unknown)
            free_of_harm, with_harm = plan.candidates(batch)
            harmless += int(np.count_nonzero(free_of_harm))
            harmful += int(np.count_nonzero(with_harm))
            tried += len(batch)
        found = _first_enough(plan, rows[:tried], enough=enough)
        return Search(plan, self._cluster, found, rows[:tried], without_victims)

    def _evaluate(self, rows: Rows) -> None:
        """Evaluate the rows; only one if verdicts may depend on other rows.

        All pods of lower priority are removed; then, by descending importance, each one is added again if the
        pod still fits.
        """
        if self._reads_sums:
            try:
                self._try(sums_trial, rows)
            except TrialError:
                pass  # a plugin failed: evaluating rows one by one shows for which
            else:
                return
        try:
            self._try(pod_trial, rows)
        except TrialError as failure:
            self._plan.refuse(rows, failure.status)

    def _try(self, attempt: Attempt, rows: Rows) -> None:
        diagnosis = Diagnosis()
        with attempt(self._preemptor, rows) as trial:
            lanes = trial.fitting(diagnosis)
            for lane in lanes:
                self._rank(lane)
            trial.begin(lanes)
            turn, active = 0, lanes
            while active := [lane for lane in active if turn < len(lane.possible)]:
                for lane, reprieved in zip(active, trial.reprieve(active, turn), strict=True):
                    if not reprieved:
                        lane.victims.append((lane.possible[turn], turn < lane.violating))
                turn += 1
        self._record(diagnosis, lanes)

    def _rank(self, lane: VictimLane) -> None:
        """Sort the possible victims: those that violate a budget first, then by importance."""
        split = self._budgets.split(sorted(lane.possible, key=importance))
        lane.possible = [*split.violating, *split.others]
        lane.violating = len(split.violating)
        self._plan.cover(lane.row, split.covering)

    def _record(self, diagnosis: Diagnosis, lanes: Sequence[VictimLane]) -> None:
        plan, row_of = self._plan, self._cluster.row_of
        for rows, status in diagnosis.rows():
            plan.refuse(rows, status)
        refused = [(row_of(name), status) for name, status in diagnosis.explicit.items()]
        for lane in lanes:
            if not lane.victims:
                name = self._cluster.names[lane.row]
                refused.append((lane.row, Status.error(f'expected at least one victim pod on node "{name}"')))
        for row, status in refused:
            if row is not None:
                plan.refuse(np.array([row], np.int64), status)
        if found := {lane.row: _victims(lane) for lane in lanes if lane.victims}:
            plan.accept(found)


def _victims(lane: VictimLane) -> Victims:
    pods = [info for info, _breaks in lane.victims]
    violations = sum(breaks for _info, breaks in lane.victims)
    if violations:  # otherwise they were evicted in the order of importance
        pods.sort(key=importance)
    return Victims(tuple(pods), violations)
