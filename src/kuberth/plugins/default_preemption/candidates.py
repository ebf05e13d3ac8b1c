"""Where preemption could make room, and where it would do so at the least cost.

In: the diagnosis of a pod that fits nowhere. Out: candidate nodes with their victims, the best of them,
or why preemption helps nowhere.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.runner import Runner
from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.importance import NOT_STARTED, start_time
from kuberth.plugins.default_preemption.victims import Victims, VictimSearch

NOT_HELPFUL: Final = Status.unresolvable("Preemption is not helpful for scheduling")
"""How nodes count where removing pods cannot change the verdict."""

NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming pod")

_LEAST_AT_ONCE: Final = 16
"""How many nodes are tried together when only a few candidates are missing."""

_LIFT: Final = 2**31
"""Added to every priority so that more victims of negative priority never look cheaper than fewer."""


class Candidate(NamedTuple):
    """A node the pod would fit on, and whom that costs."""

    node_name: str
    victims: Victims


class Search(NamedTuple):
    """What a search found: candidates, and the status of the nodes that are none."""

    candidates: Sequence[Candidate]
    diagnosis: Diagnosis
    errors: Sequence[str]

    @property
    def error(self) -> str:
        """All errors in one line, each told once."""
        distinct = tuple(dict.fromkeys(self.errors))
        return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def resolvable_rows(diagnosis: Diagnosis, cluster: ClusterTable) -> NDArray[np.int64]:
    """Rows that were rejected in a way that removing pods may change, in the order nodes are tried."""
    order = cluster.order()
    mask = np.full(cluster.slots, diagnosis.absent_status.code == Code.UNSCHEDULABLE, np.bool_)
    for rows, status in diagnosis.rows():
        mask[rows] = status.code == Code.UNSCHEDULABLE
    for name, status in diagnosis.explicit.items():
        row = cluster.row_of(name)
        if row is not None:
            mask[row] = status.code == Code.UNSCHEDULABLE
    return order[mask[order]]


def search(
    runner: Runner,
    state: CycleState,
    pod: Pod,
    *,
    cluster: ClusterTable,
    rows: NDArray[np.int64],
    enough: int,
    priority: int,
    budgets: Budgets,
) -> Search:
    """Try `rows` in order until `enough` candidates are found, at least one of which breaks no budget."""
    diagnosis = Diagnosis()
    diagnosis.absent_status = NOT_HELPFUL
    with_victims = cluster.rows_with_priority_below(priority)[rows]
    if not with_victims.all():
        without = rows[~with_victims]
        codes = np.ones_like(without)
        diagnosis.add_block("", without, Verdict.choosing(codes, NO_VICTIMS), codes)
    victims = VictimSearch(
        runner, state, pod, cluster=cluster, priority=priority, budgets=budgets, diagnosis=diagnosis
    )
    candidates = _first_enough(victims, cluster, rows[with_victims].tolist(), enough=enough)
    return Search(candidates, diagnosis, victims.errors)


def _first_enough(
    victims: VictimSearch, cluster: ClusterTable, rows: Sequence[int], *, enough: int
) -> Sequence[Candidate]:
    """Candidates that break no budget, then those that do."""
    harmless: list[Candidate] = []
    harmful: list[Candidate] = []
    start = 0
    while start < len(rows):
        missing = enough - len(harmless) - len(harmful)
        stop = start + (max(missing, _LEAST_AT_ONCE) if victims.spans_nodes else 1)
        for row, found in zip(rows[start:stop], victims.on_rows(rows[start:stop]), strict=True):
            if found is None:
                continue
            group = harmful if found.budget_violations else harmless
            if len(group) < enough:
                group.append(Candidate(cluster.names[row], found))
            if harmless and len(harmless) + len(harmful) >= enough:
                return [*harmless, *harmful]
        start = stop
    return [*harmless, *harmful]


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate that costs least; among equals the first."""
    return min(candidates, key=_cost)


def _cost(candidate: Candidate) -> tuple[int, int, int, int, datetime.timedelta]:
    """What makes a candidate worse, in order of weight.

    Broken budgets; the highest priority among the victims; the sum of their priorities; their number;
    and for how long the longest running of the most important ones has run.
    """
    pods, violations = candidate.victims
    highest = pods[0].priority
    earliest = min(start_time(info) for info in pods if info.priority == highest)
    return (
        violations,
        highest,
        sum(info.priority + _LIFT for info in pods),
        len(pods),
        NOT_STARTED - earliest,
    )
