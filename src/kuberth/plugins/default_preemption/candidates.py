"""The candidates of a preemption, and the one with the lowest cost.

In: the diagnosis of a pod that fits nowhere. Out: candidate rows with their victims, the best of them, or why
preemption does not help.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kuberth.cluster.arrays import Rows
from kuberth.cluster.table import ClusterTable
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.plans import VictimPlan, Victims
from kuberth.plugins.default_preemption.trials import Preemptor
from kuberth.plugins.default_preemption.victims import VictimSearch

NOT_HELPFUL: Final = Status.unresolvable("Preemption is not helpful for scheduling")
"""The status of nodes where removing pods cannot change the verdict."""

NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming pod")

_LEAST_AT_ONCE: Final = 16
"""How many nodes are tried together when only a few candidates are missing."""

NO_ROWS: Final[Rows] = np.zeros(0, np.int64)


class Candidate(NamedTuple):
    """A node on which the pod would fit, and the victims there."""

    node_name: str
    victims: Victims


class Search:
    """The result of a search: candidates, and the rejections of the other rows."""

    def __init__(
        self, plan: VictimPlan, cluster: ClusterTable, *, candidates: Rows, tried: Rows, without_victims: Rows
    ) -> None:
        self.rows = candidates
        """The candidates, in the order in which they were found."""
        self._plan = plan
        self._cluster = cluster
        self._tried = tried
        self._without_victims = without_victims

    def candidate(self, row: int) -> Candidate:
        """One of `rows`."""
        return Candidate(self._cluster.names[row], self._plan.victims_at(row))

    def best(self) -> Candidate | None:
        """The candidate with the lowest cost, the first among equals; None if there is none."""
        return self.candidate(self._plan.cheapest(self.rows)) if len(self.rows) else None

    @property
    def error(self) -> str:
        """All distinct errors in one line."""
        errors = self._plan.errors(self._tried)
        return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""

    def diagnosis(self) -> Diagnosis:
        """The status of the nodes that are not candidates."""
        diagnosis = Diagnosis()
        diagnosis.absent_status = NOT_HELPFUL
        if len(self._without_victims):
            ones = np.ones_like(self._without_victims)
            diagnosis.add_block("", self._without_victims, Verdict.choosing(ones, NO_VICTIMS), ones)
        self._plan.report(self._tried, diagnosis)
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


def search(preemptor: Preemptor, rows: Rows, *, enough: int, budgets: Budgets, plan: VictimPlan) -> Search:
    """Try `rows` until `enough` candidates are found, at least one of them without a budget violation.

    The plan must be up to date.
    """
    cluster = preemptor.cluster
    with_victims = cluster.rows_with_priority_below(preemptor.priority)[rows]
    without_victims, rows = rows[~with_victims], rows[with_victims]
    judging = VictimSearch(preemptor, budgets=budgets, plan=plan)
    is_alone = preemptor.runner.filtering.judges_nodes_alone(preemptor.state)
    if not is_alone:
        judging.refuse_by_requests(rows[plan.stale(rows, cluster)])
    stale = plan.stale(rows, cluster)
    tried, harmless, harmful = 0, 0, 0
    while tried < len(rows) and not (harmless and harmless + min(harmful, enough) >= enough):
        if is_alone:
            size = _next_size(tried, harmless + harmful, enough=enough)
        else:  # up to the next row that has to be evaluated
            size = int(stale[tried:].argmax()) + 1 if stale[tried:].any() else len(rows)
        batch = rows[tried : tried + size]
        unknown = batch[stale[tried : tried + size]]
        if len(unknown):
            judging.judge(unknown)
        free_of_harm, with_harm = plan.candidates(batch)
        harmless += int(np.count_nonzero(free_of_harm))
        harmful += int(np.count_nonzero(with_harm))
        tried += len(batch)
    tried_rows = rows[:tried]
    return Search(
        plan,
        cluster,
        candidates=_first_enough(plan, tried_rows, enough=enough),
        tried=tried_rows,
        without_victims=without_victims,
    )


def _next_size(tried: int, found: int, *, enough: int) -> int:
    """How many rows to try next, assuming that candidates stay as frequent."""
    missing = enough - found
    if tried and missing > 0:
        missing = missing * tried // max(found, 1)
    return max(missing if missing > 0 else tried, _LEAST_AT_ONCE)


def _first_enough(plan: VictimPlan, rows: Rows, *, enough: int) -> Rows:
    """The candidates up to the row at which there were enough: first those without a budget violation."""
    harmless, harmful = plan.candidates(rows)
    harmful &= np.cumsum(harmful) <= enough
    found = harmless | harmful
    satisfied = (np.cumsum(found) >= enough) & (np.cumsum(harmless) > 0)
    end = int(np.argmax(satisfied)) + 1 if satisfied.any() else len(rows)
    return np.concatenate((rows[:end][harmless[:end]], rows[:end][harmful[:end]]))
