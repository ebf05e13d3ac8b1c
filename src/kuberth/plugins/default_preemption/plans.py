"""Results of a preemption per row, kept for equal preemptors.

In: victims or a rejection per row, and what they depend on: the row's state, the budgets that cover its pods,
its nominations. Out: the same results while none of that has changed, as columns, so that the best of
hundreds of candidates is found with a few array operations.
"""

from __future__ import annotations

import datetime
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kuberth.cluster.arrays import Column, Mask, Rows
from kuberth.cluster.counting import resized
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.nominator import Nominator
from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.default_preemption.budgets import ANY_PODS, Budgets

CANDIDATE: Final = 1
"""The code of a candidate row; 0 is a row that was never evaluated, others are rejections."""

MAX_KEPT_ROWS: Final = 500_000
"""The maximum number of rows in all plans together; beyond it, the least recently used plan is emptied."""

MAX_REFUSALS: Final = 4096
"""The maximum number of distinct rejections in a plan; with more it is reset."""

NOT_STARTED: Final = datetime.datetime.max.replace(tzinfo=datetime.UTC)
"""The start time of a pod that has not started: later than all others."""

_NEVER: Final = -1
_LIFT: Final = 2**31
"""Added to every priority, so that more victims of negative priority never look better than fewer."""
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def start_time(info: PodInfo) -> datetime.datetime:
    return info.pod.status.start_time or NOT_STARTED


def importance(info: PodInfo) -> tuple[int, datetime.datetime]:
    """A sort key: the pod with the highest priority comes first, then the one that has run for longest."""
    return -info.priority, start_time(info)


class Victims(NamedTuple):
    """The victims, by descending importance, and how many of them violate a disruption budget."""

    pods: tuple[PodInfo, ...]
    budget_violations: int

    @property
    def cost(self) -> tuple[int, int, int, int, int]:
        """The cost of a candidate, in order of weight.

        Budget violations; the highest priority among the victims; the sum of their priorities; their number;
        and the earliest start time of the most important ones.
        """
        highest = self.pods[0].priority
        earliest = min(start_time(info) for info in self.pods if info.priority == highest)
        return (
            self.budget_violations,
            highest,
            sum(info.priority + _LIFT for info in self.pods),
            len(self.pods),
            (NOT_STARTED - earliest) // _MICROSECOND,
        )


class VictimPlan:
    """The evaluated rows for one kind of preemptor."""

    def __init__(self, budgets: Budgets, nominator: Nominator, cluster: ClusterTable) -> None:
        self._budgets = budgets
        self._cluster = cluster
        self._changed_budgets = budgets.changes.reader()
        self._nominations = nominator.changes.reader()
        self.clear()

    def clear(self) -> None:
        """Drop all results."""
        self._codes: Column = np.zeros(0, np.int64)
        self._evaluated_at: Column = np.zeros(0, np.int64)
        """int64[row]: `settled_generation` of the row when it was evaluated."""
        self._cost: Column = np.zeros((5, 0), np.int64)
        """[part of `Victims.cost`, row]: the cost of candidates."""
        self._victims: dict[int, Victims] = {}
        self._refusals: dict[Status, int] = {}
        self._covering: dict[int, frozenset[str]] = {}
        """By row, the budgets that cover a possible victim there."""
        self._covered: dict[frozenset[str], set[int]] = {}
        """The rows of each such set: many rows share one."""
        self._sets_with: dict[str, set[frozenset[str]]] = {}

    @property
    def size(self) -> int:
        """The number of rows for which there is capacity."""
        return len(self._codes)

    def catch_up(self) -> None:
        """Drop results that changes outside of the rows may have invalidated."""
        self._budgets.catch_up()
        doubtful, nominated = self._changed_budgets.read(), self._nominations.read()
        too_much = doubtful is None or ANY_PODS in doubtful or nominated is None
        if too_much or len(self._refusals) > MAX_REFUSALS:
            self.clear()
        if (slots := self._cluster.slots) > self.size:
            self._codes = resized(self._codes, slots)
            self._evaluated_at = resized(self._evaluated_at, slots)
            self._cost = resized(self._cost, slots)
        for key in doubtful or ():
            for budgets in self._sets_with.get(key, ()):
                self.forget(self._covered[budgets])
        for name in nominated or ():
            if (row := self._cluster.row_of(name)) is not None:
                self.forget((row,))

    def forget(self, rows: Iterable[int]) -> None:
        """Evaluate these rows again when they are needed."""
        self._evaluated_at[list(rows)] = _NEVER

    def stale(self, rows: Rows) -> Mask:
        """Which of the rows have to be evaluated."""
        stale: Mask = self._evaluated_at[rows] != self._cluster.settled_generation[rows]
        stale |= self._codes[rows] == 0
        return stale

    # Storing results

    def accept(self, found: Mapping[int, Victims]) -> None:
        """Store candidates."""
        rows = np.fromiter(found, np.int64, len(found))
        self._codes[rows] = CANDIDATE
        self._cost[:, rows] = np.array([victims.cost for victims in found.values()], np.int64).T
        self._victims.update(found)
        self._evaluated_at[rows] = self._cluster.settled_generation[rows]

    def refuse(self, rows: Rows, status: Status) -> None:
        """Store rejections. A failure is reported but not stored, since it may be temporary."""
        self._codes[rows] = self._refusals.setdefault(status, len(self._refusals) + CANDIDATE + 1)
        failed = status.code == Code.ERROR
        self._evaluated_at[rows] = _NEVER if failed else self._cluster.settled_generation[rows]

    def cover(self, row: int, budgets: frozenset[str]) -> None:
        """Store the budgets on which a row's result depends."""
        before = self._covering.get(row)
        if before == budgets:
            return
        if before is not None:
            self._covered[before].remove(row)
            if not self._covered[before]:
                del self._covered[before]
                for key in before:
                    self._sets_with[key].remove(before)
                    if not self._sets_with[key]:
                        del self._sets_with[key]
        if budgets not in self._covered:
            self._covered[budgets] = set()
            for key in budgets:
                self._sets_with.setdefault(key, set()).add(budgets)
        self._covered[budgets].add(row)
        self._covering[row] = budgets

    # Reading results

    def candidates(self, rows: Rows) -> tuple[Mask, Mask]:
        """The candidates without budget violations, and those with some."""
        found = self._codes[rows] == CANDIDATE
        breaking = self._cost[0, rows] > 0
        return found & ~breaking, found & breaking

    def cheapest(self, rows: Rows) -> int:
        """The candidate with the lowest cost; the first among equals."""
        for cost in self._cost:
            costs = cost[rows]
            rows = rows[costs == costs.min()]
            if len(rows) == 1:
                break
        return int(rows[0])

    def victims_at(self, row: int) -> Victims:
        return self._victims[row]

    def report(self, rows: Rows, diagnosis: Diagnosis) -> None:
        """The rejections of the rows that are not candidates."""
        codes = self._codes[rows]
        for status, code in self._refusals.items():
            refused = rows[codes == code]
            if len(refused):
                ones = np.ones_like(refused)
                diagnosis.add_block(status.plugin, refused, Verdict.choosing(ones, status), ones)

    def errors(self, rows: Rows) -> Sequence[str]:
        """The distinct failures on the rows, in their order."""
        failed: Mapping[int, str] = {
            code: status.message for status, code in self._refusals.items() if status.code == Code.ERROR
        }
        if not failed:
            return ()
        codes = self._codes[rows].tolist()
        return tuple(dict.fromkeys(failed[code] for code in codes if code in failed))


class VictimPlans:
    """All plans, within limits."""

    def __init__(self) -> None:
        self._plans: OrderedDict[int, VictimPlan] = OrderedDict()

    def use(self, plan: VictimPlan) -> None:
        """Mark the plan as used; others are dropped first."""
        self._plans[id(plan)] = plan
        self._plans.move_to_end(id(plan))
        rows = sum(each.size for each in self._plans.values())
        while rows > MAX_KEPT_ROWS and len(self._plans) > 1:
            _identity, oldest = self._plans.popitem(last=False)
            rows -= oldest.size
            oldest.clear()
