"""A plan: cached verdicts and scores of the nodes for equal pods.

In: the filters and scorers whose answers a plan caches, and the table's change log. Out: which nodes of a
stretch of the node order pass (`feasible`), and the sums of the scores at any places (`totals`). Only rows
that have changed since are evaluated again, by the same plugins and many at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.arrays import Column, Mask, Rows
from kuberth.cluster.node_order import NodeOrder
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import Scores
from kuberth.framework.inputs import Versioned
from kuberth.framework.nominator import Nominator
from kuberth.framework.running.calls import FEW_NODES
from kuberth.framework.running.filters import Block, Filter, Filters
from kuberth.framework.running.scorers import Scorer, Scorers
from kuberth.framework.scores import MAX_NODE_SCORE, MIN_NODE_SCORE
from kuberth.framework.status import SUCCESS, Status
from kuberth.framework.verdict import Verdict, distinct

Places = slice | Rows
"""Indexes into `NodeOrder.twice`."""

MAX_REJECTIONS: Final = 4096
"""The maximum number of distinct statuses in a plan. Beyond it the plan starts empty again, which bounds
memory if a plugin words each status differently."""

FRESH: Final = 0
PODS_CHANGED: Final = 1
OBJECT_CHANGED: Final = 2
UNKNOWN: Final = 3
"""How stale a place is: up to date; the node's pods have changed; its object has changed too; never
evaluated."""

BY_OBJECT: Final = 0
BY_PODS: Final = 1
BY_NOMINATED: Final = 2
"""The three causes of a rejection: filters that read only the node's object, filters that read its pods, and
any filter when nominated pods are counted."""

_NO_SCORE: Final = np.iinfo(np.int64).min
"""The raw score of a row that has not been scored."""
_LAST: Final = 2**62
"""The order of "no rejection": after all others."""
_MAX_CONSTANTS: Final = 64


class KeptScorer(NamedTuple):
    """A Score plugin whose raw scores a plan caches."""

    scorer: Scorer
    weight: int
    """Its weight; 0 if its scores have to be normalized first."""
    follows_pods: bool


class Kept(NamedTuple):
    """The plugins whose answers a plan caches: none depends on other nodes."""

    filters: Sequence[Filter]
    """The filters, in the profile's order."""
    object_filters: Sequence[Filter]
    """Those that do not read the pods on the node."""
    pod_filters: Sequence[Filter]
    """Those that do."""
    scorers: Sequence[KeptScorer]
    normalizing: Sequence[tuple[int, Scorer]]
    """The scorers whose scores have to be normalized, with their index."""
    sees_pods: bool
    """Whether any plugin reads more of the pods on a node than their number and requests."""
    versions: Sequence[Versioned]
    """What else the answers depend on."""


@dataclass(eq=False, kw_only=True)
class Plan:
    """Cached answers for pods that are equal in every field that these plugins read."""

    kept: Kept
    priority: int
    """The priority of the pods; nominated pods of the same or a higher priority count on their node."""
    table: ClusterTable
    nominator: Nominator
    filters: Filters
    scorers: Scorers
    verdicts_version: int = field(default=0, init=False)
    """Grows whenever the verdict on a node changes."""

    def __post_init__(self) -> None:
        log = self.table.changes if self.kept.sees_pods else self.table.counted_changes
        self._log = log.reader()
        self._nominations = self.nominator.changes.reader()
        self._restart(self.table.node_order())

    def _restart(self, order: NodeOrder) -> None:
        """Drop all answers; `order` is the new order of the nodes."""
        self.verdicts_version += 1
        table, length, capacity = self.table, len(order.twice), len(self.table.live)
        self._order = order
        self._stale: NDArray[np.uint8] = np.full(length, UNKNOWN, np.uint8)
        """uint8[place]: how stale the place is."""
        self._passing: Mask = np.zeros(length, np.bool_)
        """bool[place]: whether the node passes these filters."""
        self._totals: Column = np.zeros(length, np.int64)
        """int64[place]: the weighted sum of scores, except those that have to be normalized."""
        self._ids: NDArray[np.int32] = np.zeros((3, capacity), np.int32)
        """int32[BY_…, row]: the id of the row's rejection; 0: none."""
        self._raw: Column = np.full((len(self.kept.scorers), capacity), _NO_SCORE, np.int64)
        """int64[scorer, row]: the raw score."""
        self._rejections: list[tuple[int, Status]] = []
        """For each id, counted from 1: the order of the filter, and the status."""
        self._index: dict[Status, int] = {}
        self._nonzero: set[int] = set()
        """The scorers that returned a raw score other than zero for some row."""
        self._constants: dict[tuple[int, int], int] = {}
        """By scorer and number of nodes: the result of normalizing this many zeros, if all scores are
        equal."""
        self._log.read()
        self._nominations.read()
        self._generation = table.generation
        """The table's generation when the log was last read."""
        self._versions = sum_of_versions(self.kept.versions)

    # Answers

    def feasible(self, places: Places, state: CycleState, pod: Pod) -> Mask | None:
        """Which of the places pass the filters; read-only. None: a plugin failed."""
        self._catch_up()
        return self._passing[places] if self._refresh(places, state, pod) else None

    def refresh(self, state: CycleState, pod: Pod) -> bool:
        """Evaluate every node that has changed. False: a plugin failed."""
        self._catch_up()
        return self._refresh(slice(0, self._order.count), state, pod)

    @property
    def rejects_all(self) -> bool:
        """Whether the filters reject every node, as of the last refresh."""
        return not self._passing.any()

    def totals(self, places: Places, state: CycleState, pod: Pod) -> Scores | None:
        """The sums of scores of places that pass, without those to normalize. None: a plugin failed."""
        if self._generation != self.table.generation:
            self._catch_up()
        return self._totals[places] if self._refresh(places, state, pod) else None

    # Details of the answers

    def rejections(self, nodes: Nodes, positions: NDArray[np.intp]) -> Iterator[Block]:
        """The rejections of the nodes at these positions of a view; all of them must be rejected nodes."""
        rows = nodes.rows_at(positions)
        orders = np.array([_LAST, *(order for order, _status in self._rejections)], np.int64)
        by_object, by_pods, first = self._ids[:, rows]
        as_they_are = np.where(orders[by_object] <= orders[by_pods], by_object, by_pods)
        first = np.where(first, first, as_they_are)
        for known in distinct(first):
            _order, status = self._rejections[known - 1]
            found = positions[first == known]
            codes = np.ones(len(found), np.int64)
            yield Block(status.plugin, found, Verdict.choosing(codes, status), codes)

    def raw_scores(self, scorer: int, rows: Rows) -> Scores:
        """A copy of the raw scores of rows that pass."""
        raw: Scores = self._raw[scorer].take(rows)
        return raw

    def constant(self, scorer: int, nodes: int) -> int | None:
        """The normalized score of every node if all raw scores are zero; None if not, or if unknown."""
        return None if scorer in self._nonzero else self._constants.get((scorer, nodes))

    def record_constant(self, scorer: int, scores: Scores) -> None:
        """Record the result of normalizing."""
        if scorer not in self._nonzero and len(scores) and (scores == scores[0]).all():
            if len(self._constants) >= _MAX_CONSTANTS:
                self._constants.clear()
            self._constants[scorer, len(scores)] = scores.item(0)

    # Staying up to date

    def _refresh(self, places: Places, state: CycleState, pod: Pod) -> bool:
        """Evaluate every stale place. False: a plugin failed; evaluate without the plan to report it."""
        stale = self._stale[places]
        number = np.count_nonzero(stale)
        if not number:
            return True
        if number == 1 and isinstance(places, slice):  # the usual case: the node of the previous equal pod
            place = places.start + int(stale.argmax())
            if self._stale.item(place) < UNKNOWN:
                return self._refresh_row(self._order.twice.item(place), state, pod)
        positions = stale.nonzero()[0]
        if isinstance(places, slice) and stale.item(stale.argmax()) == UNKNOWN:
            # The stretches of equal pods overlap, and a view of many rows costs little more than one of a
            # few. If a plugin fails for a row outside the stretch, this pod is not affected.
            around = self._wider(places)
            wider = self._order.rows[around[self._stale[around] != FRESH]]
            if len(wider) > len(positions) and self._refresh_rows(wider, state, pod):
                return True
        rows = self._order.twice[places][positions]
        if len(rows) > FEW_NODES:
            return self._refresh_rows(rows, state, pod)
        for row in rows.tolist():  # noqa: SIM110 - a generator would cost a frame a row
            if not self._refresh_row(row, state, pod):
                return False
        return True

    def _wider(self, stretch: slice) -> Rows:
        """The places of a stretch, and the same number of places before and after it."""
        number, length = self._order.count, stretch.stop - stretch.start
        if 3 * length >= number:
            return np.arange(number)
        return np.arange(stretch.start - length, stretch.stop + length) % number

    def _catch_up(self) -> None:
        """Mark the places of changed rows as stale."""
        table = self.table
        if (
            self._order is not table.node_order()
            or len(self._rejections) > MAX_REJECTIONS
            or self._versions != sum_of_versions(self.kept.versions)
        ):
            self._restart(table.node_order())
            return
        written: Iterable[int] | None = self._log.read()
        if written is None:
            written = np.flatnonzero(table.settled_generation[: table.slots] > self._generation).tolist()
        if written:
            renewed, generation = table.node_generation, self._generation
            for row in written:
                is_renewed = renewed.item(row) > generation
                self._mark(row, OBJECT_CHANGED if is_renewed else PODS_CHANGED)
        self._generation = table.generation
        names = self._nominations.read()
        if names is None:
            self._restart(self._order)
        elif names:
            for name in names:
                nominated_row = table.row_of(name)
                if nominated_row is not None:
                    self._mark(nominated_row, PODS_CHANGED)

    def _mark(self, row: int, level: int) -> None:
        # The row may not be in the order, if its node was added and deleted since.
        place = self._order.place_of(row)
        if place is not None and self._stale.item(place) < level:
            self._stale[place] = self._stale[place + self._order.count] = level

    def _refresh_row(self, row: int, state: CycleState, pod: Pod) -> bool:
        """Filter and score one row, without arrays."""
        kept, ids, table = self.kept, self._ids, self.table
        place = self._order.place.item(row)
        node = NodeRow(table, row)
        before = ids.item(BY_OBJECT, row), ids.item(BY_PODS, row), ids.item(BY_NOMINATED, row)
        by_object = before[BY_OBJECT]
        if self._stale.item(place) > PODS_CHANGED:
            self._raw[:, row] = _NO_SCORE
            if kept.object_filters:
                found = self.filters.evaluate_one(kept.object_filters, state, pod, node)
                by_object = self._id_of(found)
                if by_object < 0:
                    return False
        found = self.filters.evaluate_one(kept.pod_filters, state, pod, node)
        by_pods = 0 if found is SUCCESS else self._id_of(found)
        if by_pods < 0:
            return False
        by_nominated = 0
        if self.nominator.by_node and (nominated := self._nominated_to(row)):
            with table.what_if() as what_if:
                for info in nominated:
                    what_if.add_pod(info, row)
                found = self.filters.evaluate_one(kept.filters, state, pod, node)
            by_nominated = self._id_of(found)
            if by_nominated < 0:
                return False
        verdicts = by_object, by_pods, by_nominated
        if before != verdicts:
            ids[:, row] = verdicts
            self.verdicts_version += 1
        total = 0
        passes = not (by_object or by_pods or by_nominated)
        if passes:
            raw = self._raw
            for index, (scorer, weight, follows_pods) in enumerate(kept.scorers):
                score = raw.item(index, row)
                if follows_pods or score == _NO_SCORE:
                    fresh = self.scorers.raw_of_one(scorer, state, pod, node)
                    if fresh is None or (weight and not MIN_NODE_SCORE <= fresh <= MAX_NODE_SCORE):
                        return False
                    score = raw[index, row] = fresh
                    if score:
                        self._nonzero.add(index)
                total += weight * score
        again = place + self._order.count
        self._passing[place] = self._passing[again] = passes
        self._totals[place] = self._totals[again] = total
        self._stale[place] = self._stale[again] = FRESH
        return True

    def _refresh_rows(self, rows: Rows, state: CycleState, pod: Pod) -> bool:
        """Filter and score many rows: each plugin is called for all of them at once."""
        kept, ids, raw = self.kept, self._ids, self._raw
        places = self._order.place.take(rows)
        renewed = rows[self._stale.take(places) > PODS_CHANGED]
        raw[:, renewed] = _NO_SCORE
        before = ids[:, rows]
        if not (
            self._evaluate_rows(BY_OBJECT, kept.object_filters, renewed, state, pod)
            and self._evaluate_rows(BY_PODS, kept.pod_filters, rows, state, pod)
            and self._evaluate_nominated(rows, state, pod)
        ):
            return False
        if (before != ids[:, rows]).any():
            self.verdicts_version += 1
        passes = (ids[BY_OBJECT].take(rows) | ids[BY_PODS].take(rows) | ids[BY_NOMINATED].take(rows)) == 0
        passing = rows[passes]
        totals = np.zeros(len(passing), np.int64)
        for index, (scorer, weight, follows_pods) in enumerate(kept.scorers):
            unscored = passing if follows_pods else passing[raw[index].take(passing) == _NO_SCORE]
            if len(unscored):
                view = Nodes(self.table, unscored)
                scores = self.scorers.raw(scorer, state, pod, view)
                if isinstance(scores, Status):
                    return False
                if scores is None:
                    scores = np.zeros(len(unscored), np.int64)
                if weight and isinstance(self.scorers.within_range(scorer, scores, view), Status):
                    return False
                raw[index][unscored] = scores
                if np.count_nonzero(scores):
                    self._nonzero.add(index)
            totals += weight * raw[index].take(passing)
        for half in (places, places + self._order.count):
            self._passing[half] = passes
            self._totals[half[passes]] = totals
            self._stale[half] = FRESH
        return True

    def _evaluate_rows(
        self, part: int, filters: Sequence[Filter], rows: Rows, state: CycleState, pod: Pod
    ) -> bool:
        """Run these filters over rows and store the results. False: one of them failed."""
        if not len(rows):
            return True
        ids = self._ids[part]
        view = Nodes(self.table, rows)
        evaluated = self.filters.evaluate(filters, state, pod, view, view.live())
        if isinstance(evaluated, Status):
            return False
        ids[rows] = 0
        by_name = {each.name: each for each in filters}
        for block in evaluated[0]:
            for code in distinct(block.codes):
                status = self.filters.rejection(by_name[block.plugin].plugin, block.verdict, code)
                known = self._id_of(status)
                if known <= 0:
                    return False
                ids[rows[block.positions[block.codes == code]]] = known
        return True

    def _evaluate_nominated(self, rows: Rows, state: CycleState, pod: Pod) -> bool:
        """Run all filters over the rows with nominated pods, as if these pods were there."""
        self._ids[BY_NOMINATED, rows] = 0
        if not self.nominator.by_node:
            return True
        nominated = {
            row: pods for row in self._left_to_pod_filters(rows) if (pods := self._nominated_to(row))
        }
        if not nominated:
            return True
        with self.table.what_if_with(nominated, requests_alone=not self.kept.sees_pods):
            found = np.fromiter(nominated, np.int64, len(nominated))
            return self._evaluate_rows(BY_NOMINATED, self.kept.filters, found, state, pod)

    def _left_to_pod_filters(self, rows: Rows) -> list[int]:
        """The rows that no filter rejects before the first filter that reads pods."""
        first = min((each.order for each in self.kept.pod_filters), default=_LAST)
        before = np.array([False, *(order < first for order, _status in self._rejections)], np.bool_)
        left: list[int] = rows[~before.take(self._ids[BY_OBJECT].take(rows))].tolist()
        return left

    def _nominated_to(self, row: int) -> list[PodInfo]:
        """The pods nominated for a row that have at least the priority of this plan's pods."""
        return [
            info
            for info in self.nominator.nominated_on(self.table.names[row])
            if info.priority >= self.priority
        ]

    def _id_of(self, status: Status) -> int:
        """The id of a rejection; 0 for success, -1 for a failure."""
        if status.is_success:
            return 0
        if not status.is_rejected:
            return -1
        known = self._index.get(status)
        if known is None:
            order = next(each.order for each in self.kept.filters if each.name == status.plugin)
            self._rejections.append((order, status))
            known = self._index[status] = len(self._rejections)
        return known


def plan_bytes(capacity: int, scorers: int) -> int:
    """The size of a plan with this number of scorers, for a table of this capacity."""
    by_place = 1 + 1 + 8
    by_row = 3 * 4 + 8 * scorers
    return capacity * (2 * by_place + by_row)


def sum_of_versions(sources: Iterable[Versioned]) -> int:
    """A number that differs whenever one of them has changed, because versions only grow."""
    total = 0
    for source in sources:
        total += source.version
    return total
