"""Two ways to evaluate whether a pod would fit without victims: pod by pod, or over columns of sums.

In: rows of the cluster table and the possible victims there. Out: the rows on which the preemptor fits as
pods are removed and added again, in a what-if that the caller ends. The second way is for profiles whose
filters only read the sums of requests of the pods on a node; both give the same results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.arrays import Mask, Rows
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.request_sums import Amounts, amounts_of, sums_of
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.what_if import RequestsWhatIf, WhatIf
from kuberth.errors import KuberthError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status


@dataclass(slots=True, eq=False)
class VictimLane:
    """The state of one row while several rows are tried side by side."""

    row: int
    possible: list[PodInfo]
    """Possible victims; later in the order in which they are reprieved."""
    violating: int = 0
    """How many of them, at the front, would violate a budget."""
    victims: list[tuple[PodInfo, bool]] = field(default_factory=list)
    """The victims, and whether evicting them violates a budget."""


@dataclass(slots=True, eq=False)
class Preemptor:
    """The preemptor and its possible victims."""

    pod: Pod
    runner: Runner
    state: CycleState
    cluster: ClusterTable
    priority: int

    def pods_below(self, row: int) -> list[PodInfo]:
        """The pods on a row that have a lower priority."""
        return [info for info in self.cluster.pods_at(row) if info.priority < self.priority]


class TrialError(KuberthError):
    """A plugin failed, so there is no result."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class Trial(ABC):
    """A what-if over some rows from which all pods of lower priority were removed."""

    def __init__(self, preemptor: Preemptor, rows: Rows) -> None:
        self._preemptor = preemptor
        self._filtering = preemptor.runner.filtering
        self._state = preemptor.state.clone()
        self._cluster = preemptor.cluster
        self._rows = rows

    @abstractmethod
    def fitting(self, diagnosis: Diagnosis) -> Sequence[VictimLane]:
        """The rows where the pod fits now; other rejections are written to `diagnosis`."""

    def begin(self, lanes: Sequence[VictimLane]) -> None:  # noqa: B027 - optional
        """Fix the order of the possible victims of the lanes."""

    @abstractmethod
    def reprieve(self, lanes: Sequence[VictimLane], turn: int) -> Sequence[bool]:
        """On each lane, add the `turn`-th possible victim again; remove it again unless the pod fits."""


class PodTrial(Trial):
    """Pod by pod: all columns and PreFilter data are updated."""

    def __init__(self, preemptor: Preemptor, rows: Rows, what_if: WhatIf) -> None:
        """TrialError if a plugin could not update its data."""
        super().__init__(preemptor, rows)
        self._what_if = what_if
        self._lanes = [VictimLane(row, preemptor.pods_below(row)) for row in rows.tolist()]
        for lane in self._lanes:
            for info in lane.possible:
                self._remove(info, lane.row)

    def fitting(self, diagnosis: Diagnosis) -> Sequence[VictimLane]:
        fits = self._fits(self._lanes, diagnosis)
        return [lane for lane, is_fitting in zip(self._lanes, fits, strict=True) if is_fitting]

    def reprieve(self, lanes: Sequence[VictimLane], turn: int) -> Sequence[bool]:
        for lane in lanes:
            self._add(lane.possible[turn], lane.row)
        reprieved = self._fits(lanes)
        for lane, fits in zip(lanes, reprieved, strict=True):
            if not fits:
                self._remove(lane.possible[turn], lane.row)
        return reprieved

    def _remove(self, info: PodInfo, row: int) -> None:
        self._what_if.remove_pod(info, row)
        node = NodeRow(self._cluster, row)
        self._expect(self._filtering.run_remove_pod(self._state, self._preemptor.pod, info, node))

    def _add(self, info: PodInfo, row: int) -> None:
        self._what_if.add_pod(info, row)
        node = NodeRow(self._cluster, row)
        self._expect(self._filtering.run_add_pod(self._state, self._preemptor.pod, info, node))

    def _expect(self, status: Status) -> None:
        if not status.is_success:
            raise TrialError(status)

    def _fits(self, lanes: Sequence[VictimLane], diagnosis: Diagnosis | None = None) -> Sequence[bool]:
        """On which lanes the pod fits in their current state, also with nominated pods."""
        diagnosis = Diagnosis() if diagnosis is None else diagnosis
        if len(lanes) > 1:
            view = Nodes(self._cluster, np.array([lane.row for lane in lanes], np.int64))
            passing = self._filtering.run(self._state, self._preemptor.pod, view, diagnosis)
            if not isinstance(passing, Status):
                return list(map(bool, passing))
        # A single node, or a plugin failed: each node is evaluated alone.
        return [self._fits_on(lane.row, diagnosis) for lane in lanes]

    def _fits_on(self, row: int, diagnosis: Diagnosis) -> bool:
        node = NodeRow(self._cluster, row)
        status = self._filtering.status(self._state, self._preemptor.pod, node)
        if not status.is_success:
            diagnosis.set(node.name, status)
        return status.is_success


class SumsTrial(Trial):
    """Over columns: amounts are removed and added, for all rows at once."""

    def __init__(
        self, preemptor: Preemptor, rows: Rows, what_if: RequestsWhatIf, *, present: Amounts
    ) -> None:
        """`present`: the requests of the pods on the rows that are not possible victims."""
        super().__init__(preemptor, rows)
        self._what_if = what_if
        nominated = self._filtering.nominated_to_others(preemptor.pod, Nodes(self._cluster, rows))
        self._nominated = {row: sums_of([pods], self._cluster) for row, pods in nominated.items()}
        """By row: the requests of nominated pods of at least this priority."""
        self._present = present
        self._possible = present[:, :0]
        self._place: dict[int, tuple[int, int]] = {}

    def fitting(self, diagnosis: Diagnosis) -> Sequence[VictimLane]:
        passing = self._fits(self._rows, self._present, diagnosis)
        # Rows on which no preemption helps, usually most of them, cost nothing here.
        return [VictimLane(row, self._preemptor.pods_below(row)) for row in self._rows[passing].tolist()]

    def begin(self, lanes: Sequence[VictimLane]) -> None:
        self._possible = amounts_of([info for lane in lanes for info in lane.possible], self._cluster)
        firsts = accumulate((len(lane.possible) for lane in lanes), initial=0)
        positions = {row: position for position, row in enumerate(self._rows.tolist())}
        self._place = {
            lane.row: (positions[lane.row], first) for lane, first in zip(lanes, firsts, strict=False)
        }
        # They accept the pod, and their inputs do not change in this what-if.
        self._state.skip_filter |= self._filtering.filters_of_node_objects(self._state)

    def reprieve(self, lanes: Sequence[VictimLane], turn: int) -> Sequence[bool]:
        positions, firsts = np.array([self._place[lane.row] for lane in lanes], np.int64).T
        trial = self._present[:, positions] + self._possible[:, firsts + turn]
        reprieved = self._fits(self._rows[positions], trial)
        self._present[:, positions[reprieved]] = trial[:, reprieved]
        return list(map(bool, reprieved))

    def _fits(self, rows: Rows, amounts: Amounts, diagnosis: Diagnosis | None = None) -> Mask:
        """Whether the pod fits on rows with these amounts, with and without nominated pods."""
        fits_with_nominated = self._with_nominated_pods(rows, amounts, diagnosis) if self._nominated else None
        passing = self._evaluate_amounts(rows, amounts, diagnosis)
        return passing if fits_with_nominated is None else passing & fits_with_nominated

    def _with_nominated_pods(self, rows: Rows, amounts: Amounts, diagnosis: Diagnosis | None) -> Mask:
        passing = np.ones(len(rows), np.bool_)
        positions = [position for position, row in enumerate(rows.tolist()) if row in self._nominated]
        if not positions:
            return passing
        nominated = rows[positions]
        coming = np.concatenate([self._nominated[row] for row in nominated.tolist()], axis=1)
        with_nominated = None if diagnosis is None else Diagnosis()
        passing[positions] = self._evaluate_amounts(nominated, amounts[:, positions] + coming, with_nominated)
        if diagnosis is not None and with_nominated is not None:
            for rejected, status in with_nominated.rows():
                for row in rejected.tolist():
                    diagnosis.set(self._cluster.names[row], status)
        return passing

    def _evaluate_amounts(self, rows: Rows, amounts: Amounts, diagnosis: Diagnosis | None) -> Mask:
        self._what_if.set(amounts, rows)
        view = Nodes(self._cluster, rows)
        passing = self._filtering.run_as_is(self._state, self._preemptor.pod, view, diagnosis)
        if isinstance(passing, Status):
            raise TrialError(passing)
        return passing


@contextmanager
def pod_trial(preemptor: Preemptor, rows: Rows) -> Iterator[Trial]:
    with preemptor.cluster.what_if() as what_if:
        yield PodTrial(preemptor, rows, what_if)


@contextmanager
def sums_trial(preemptor: Preemptor, rows: Rows) -> Iterator[Trial]:
    remaining = _requests_without_victims(preemptor, rows)  # before the what-if, in which sums are not kept
    with preemptor.cluster.what_if_requests(rows) as what_if:
        yield SumsTrial(preemptor, rows, what_if, present=remaining)


def refused_by_requests(preemptor: Preemptor, rows: Rows) -> Diagnosis:
    """The rows that the first filters reject without any possible victim, by the sums of requests alone.

    Filters whose verdicts may depend on other rows are evaluated row by row, which is needless on these.
    """
    cluster, filtering, diagnosis = preemptor.cluster, preemptor.runner.filtering, Diagnosis()
    filters = filtering.leading_on_requests(preemptor.state)
    # Nominated pods are evaluated first, and may add reasons.
    nominated = filtering.nominated_to_others(preemptor.pod, Nodes(cluster, rows))
    rows = rows[~np.isin(rows, list(nominated))]
    if len(filters) and len(rows):
        remaining = _requests_without_victims(preemptor, rows)
        with cluster.what_if_requests(rows) as what_if:
            what_if.set(remaining, rows)
            view = Nodes(cluster, rows)
            passing = filtering.run_as_is(
                preemptor.state.clone(), preemptor.pod, view, diagnosis, filters=filters
            )
        if isinstance(passing, Status):
            return Diagnosis()  # a plugin failed: evaluating rows one by one shows for which
    return diagnosis


def _requests_without_victims(preemptor: Preemptor, rows: Rows) -> Amounts:
    """The requests on the rows without those of possible victims."""
    cluster = preemptor.cluster
    return cluster.amounts_at(rows) - cluster.requests_below(preemptor.priority)[:, rows]
