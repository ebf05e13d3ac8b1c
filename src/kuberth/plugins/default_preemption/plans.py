"""What a preemptor found out about rows, kept for the next one that is its equal.

In: victims or a refusal per row, and what they were judged by: the row as it stood, the budgets that cover
its pods, its nominations. Out: the same again while none of that has changed, as columns, so that
the cheapest of hundreds of candidates is a few array operations away.
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
from kuberth.plugins.default_preemption.importance import NOT_STARTED, start_time

CANDIDATE: Final = 1
"""The code of a row where preemption makes room; 0 is a row never judged, others are refusals."""

MAX_KEPT_ROWS: Final = 500_000
"""Rows of all plans together; the plan not used for longest is emptied beyond."""

MAX_REFUSALS: Final = 4096
"""Distinct refusals in a plan; with more it restarts."""

_NEVER: Final = -1
_LIFT: Final = 2**31
"""Added to every priority so that more victims of negative priority never look cheaper than fewer."""
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


class Victims(NamedTuple):
    """The pods to evict, the most important first, and how many of them break a disruption budget."""

    pods: tuple[PodInfo, ...]
    budget_violations: int

    @property
    def cost(self) -> tuple[int, int, int, int, int]:
        """What makes a candidate worse, in order of weight.

        Broken budgets; the highest priority among the victims; the sum of their priorities; their number;
        and for how long the longest running of the most important ones has run.
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
    """The rows judged for one kind of preemptor."""

    def __init__(self, budgets: Budgets, nominator: Nominator) -> None:
        self._budgets = budgets
        self._changed_budgets = budgets.changes.reader()
        self._nominations = nominator.changes.reader()
        self.clear()

    def clear(self) -> None:
        """Know nothing."""
        self._codes: Column = np.zeros(0, np.int64)
        self._judged_at: Column = np.zeros(0, np.int64)
        """int64[row]: `settled_generation` of the row when it was judged."""
        self._cost: Column = np.zeros((5, 0), np.int64)
        """[part of `Victims.cost`, row]: of candidates."""
        self._victims: dict[int, Victims] = {}
        self._refusals: dict[Status, int] = {}
        self._covering: dict[int, frozenset[str]] = {}
        """By row, the budgets that cover a possible victim there."""
        self._covered: dict[frozenset[str], set[int]] = {}
        """The rows of each such set: many rows share one."""
        self._sets_with: dict[str, set[frozenset[str]]] = {}

    @property
    def size(self) -> int:
        """How many rows there is room for."""
        return len(self._codes)

    def catch_up(self, cluster: ClusterTable) -> None:
        """Forget what changes other than those of the rows themselves have made doubtful."""
        self._budgets.catch_up()
        doubtful, nominated = self._changed_budgets.read(), self._nominations.read()
        too_much = doubtful is None or ANY_PODS in doubtful or nominated is None
        if too_much or len(self._refusals) > MAX_REFUSALS:
            self.clear()
        self._grow(cluster.slots)
        for key in doubtful or ():
            for budgets in self._sets_with.get(key, ()):
                self.forget(self._covered[budgets])
        for name in nominated or ():
            if (row := cluster.row_of(name)) is not None:
                self.forget((row,))

    def _grow(self, slots: int) -> None:
        if slots > self.size:
            self._codes = resized(self._codes, slots)
            self._judged_at = resized(self._judged_at, slots)
            self._cost = resized(self._cost, slots)

    def forget(self, rows: Iterable[int]) -> None:
        """Judge these rows again when they are asked about."""
        self._judged_at[list(rows)] = _NEVER

    def unknown(self, rows: Rows, cluster: ClusterTable) -> Rows:
        """Those of the rows that have to be judged."""
        stale: Mask = self._judged_at[rows] != cluster.settled_generation[rows]
        stale |= self._codes[rows] == 0
        return rows[stale]

    # What was found

    def accept(self, found: Mapping[int, Victims], cluster: ClusterTable) -> None:
        """The rows are candidates."""
        rows = np.fromiter(found, np.int64, len(found))
        self._codes[rows] = CANDIDATE
        self._cost[:, rows] = np.array([victims.cost for victims in found.values()], np.int64).T
        self._victims.update(found)
        self._judged_at[rows] = cluster.settled_generation[rows]

    def refuse(self, rows: Rows, status: Status, cluster: ClusterTable) -> None:
        """The rows are no candidates. A failure is reported, but not kept: it may be temporary."""
        self._codes[rows] = self._refusals.setdefault(status, len(self._refusals) + CANDIDATE + 1)
        failed = status.code == Code.ERROR
        self._judged_at[rows] = _NEVER if failed else cluster.settled_generation[rows]

    def cover(self, row: int, budgets: frozenset[str]) -> None:
        """What was found of a row goes by these budgets."""
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

    # What is known

    def candidates(self, rows: Rows) -> tuple[Mask, Mask]:
        """Which of the rows are candidates that break no budget, and which are candidates that do."""
        found = self._codes[rows] == CANDIDATE
        breaking = self._cost[0, rows] > 0
        return found & ~breaking, found & breaking

    def cheapest(self, rows: Rows) -> int:
        """The candidate that costs least; among equals the first."""
        for cost in self._cost:
            costs = cost[rows]
            rows = rows[costs == costs.min()]
            if len(rows) == 1:
                break
        return int(rows[0])

    def victims_at(self, row: int) -> Victims:
        return self._victims[row]

    def report(self, rows: Rows, diagnosis: Diagnosis) -> None:
        """Why the rows are no candidates, as far as they are none."""
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
    """All plans, within bounds."""

    def __init__(self) -> None:
        self._plans: OrderedDict[int, VictimPlan] = OrderedDict()

    def use(self, plan: VictimPlan) -> None:
        """The plan has been of use; others make room for it."""
        self._plans[id(plan)] = plan
        self._plans.move_to_end(id(plan))
        rows = sum(each.size for each in self._plans.values())
        while rows > MAX_KEPT_ROWS and len(self._plans) > 1:
            _identity, oldest = self._plans.popitem(last=False)
            rows -= oldest.size
            oldest.clear()
