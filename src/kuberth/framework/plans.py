"""Plans: what is known of the nodes for pods that no plugin can tell apart.

In: a pod's signature, that is, every field of it that the profile's plugins say they read; verdicts and
scores as they are worked out. Out: the same verdicts and scores for the next equal pod, as long as the row
they speak of was not written to. The thousandth replica of a template costs what changed since the last one.

A plan holds only what plugins promise to be an affair of one node (`DependsOn`); whoever promises nothing is
asked anew for every pod. What a plan gives is what the full computation would give: plugins cannot tell.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.counting import Column
from kuberth.cluster.node_order import NodeOrder
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.extension_points import DependsOn, Plugin
from kuberth.framework.signatures import Signer, signer
from kuberth.framework.status import SKIP_FOR_GOOD, SUCCESS, Status
from kuberth.framework.verdict import Mask

if TYPE_CHECKING:
    from kuberth.framework.cycle_state import CycleState, StateKey

MAX_BYTES: Final = 128 * 2**20
"""What all plans of a profile may hold; the one unused for longest goes first."""
MAX_PLANS: Final = 1024
"""However small the cluster: a plan is more than its columns."""
MAX_SIGNATURES: Final = 4096
"""Signatures seen once that are remembered. A plan is made for the second equal pod: most pods that are not
one of many never have an equal."""

Rows = NDArray[np.int64]


_NEVER: Final = 2**62
"""The place of a rejection that there is not: after all others."""


class KnownRejection(NamedTuple):
    """A status that some rows share, and the place of its plugin in the order of filters."""

    order: int
    status: Status


class KeptVerdicts:
    """The first rejection of every row among plugins that look at the node's object, and among those that
    look at its pods: whichever comes first in the order of filters counts."""

    __slots__ = ("_index", "ids", "judged_at", "rejections")

    OBJECT: Final = 0
    PODS: Final = 1

    def __init__(self, capacity: int) -> None:
        self.ids: NDArray[np.int32] = np.zeros((2, capacity), np.int32)
        """[part, row]: what was said of the row; 0: it passes."""
        self.judged_at: Column = np.zeros(capacity, np.int64)
        """int64[row]: the table's generation when the row was judged last."""
        self.rejections: list[KnownRejection] = []
        """What ids stand for, counted from one."""
        self._index: dict[KnownRejection, int] = {}

    def id_of(self, rejection: KnownRejection) -> int:
        known = self._index.get(rejection)
        if known is None:
            self.rejections.append(rejection)
            known = self._index[rejection] = len(self.rejections)
        return known

    def first(self, rows: Rows) -> NDArray[np.int32]:
        """Per row the id of the rejection that comes first; 0 where there is none."""
        order = np.array([_NEVER, *(rejection.order for rejection in self.rejections)], np.int64)
        by_object, by_pods = self.ids[:, rows]
        first: NDArray[np.int32] = np.where(order[by_object] <= order[by_pods], by_object, by_pods)
        return first

    @property
    def size(self) -> int:
        """Bytes."""
        return self.ids.nbytes + self.judged_at.nbytes


class KeptScores:
    """Raw scores by plugin and row."""

    __slots__ = ("_of_zeros", "matrix", "scored_at", "some")

    def __init__(self, plugins: int, capacity: int) -> None:
        self.matrix: Column = np.zeros((plugins, capacity), np.int64)
        """[plugin, row]."""
        self.scored_at: Column = np.zeros(capacity, np.int64)
        """int64[row]: the table's generation when the row was scored last."""
        self.some: set[int] = set()
        """The plugins that gave some row more or less than zero."""
        self._of_zeros: dict[tuple[int, int], int] = {}

    def of_zeros(self, plugin: int, nodes: int) -> int | None:
        """What normalising gave to all the last time that so many nodes had nothing but zeros."""
        return None if plugin in self.some else self._of_zeros.get((plugin, nodes))

    def keep_of_zeros(self, plugin: int, scores: Column) -> None:
        """Normalising made these of as many zeros."""
        if len(self._of_zeros) > _MAX_OF_ZEROS:
            self._of_zeros.clear()
        if scores.size and (scores == scores[0]).all():
            self._of_zeros[plugin, len(scores)] = scores.item(0)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.matrix.nbytes + self.scored_at.nbytes


class KnownPlaces:
    """What is known of the nodes by their place in the order in which they are tried, in which a search takes
    one stretch after the other: what a stretch has to ask is then a slice."""

    __slots__ = ("_changes", "_generation", "_version", "order", "passing", "sums", "unjudged", "unscored")

    def __init__(self, order: NodeOrder, table: ClusterTable, *, looks_at_pods: bool) -> None:
        """Without `looks_at_pods` it is enough to hear when something is counted anew."""
        length = len(order.twice)
        self.order = order
        self.unjudged: Mask = np.ones(length, np.bool_)
        """Rows that Filter has to be asked about."""
        self.passing: Mask = np.zeros(length, np.bool_)
        """Rows that no kept filter rejects."""
        self.unscored: Mask = np.ones(length, np.bool_)
        """Rows that Score has to be asked about."""
        self.sums: Column = np.zeros(length, np.int64)
        """The weighted sum of the scores that nobody normalises."""
        self._changes = table.changes if looks_at_pods else table.counted_changes
        self._version = self._changes.version
        self._generation = table.generation

    def catch_up(self, table: ClusterTable) -> None:
        """Nothing is known any more of rows that were written to."""
        if self._version == self._changes.version:
            return
        written: Iterable[int] | None = self._changes.since(self._version)
        if written is None:
            written = np.flatnonzero(table.settled_generation[: table.slots] > self._generation).tolist()
        self._version, self._generation = self._changes.version, table.generation
        place, half = self.order.place, self.order.count
        for row in written:
            # Rows without a node have no place, but then the order is another, too.
            first = place.item(row)
            self.unjudged[first] = self.unjudged[first + half] = True
            self.unscored[first] = self.unscored[first + half] = True

    def to_judge(self, stretch: slice) -> Mask:
        """Which places of a stretch Filter has to be asked about."""
        return self.unjudged[stretch]

    def to_score(self, stretch: slice) -> Mask:
        """Which places of a stretch pass, and Score has to be asked about."""
        return self.unscored[stretch] & self.passing[stretch] & ~self.unjudged[stretch]

    def with_neighbours(
        self, rows: Rows, places: slice | Rows, unknown: Callable[[slice], Mask], known_at: Column
    ) -> Rows | None:
        """These rows of a stretch, and unknown ones around it that nobody was ever asked about either; None
        if that is not worth it: the rows are many, or were all known before.

        Stretches shift by little from one equal pod to the next, which will meet the neighbours, and many
        rows in one view cost hardly more than a few.
        """
        if len(rows) > _FEW_UNMET or known_at.take(rows).all():
            return None
        if isinstance(places, slice):
            begin, end = places.start, places.stop
        else:
            begin, end = places.item(0), places.item(-1) + 1
        around = slice(max(begin - _AROUND, 0), end + _AROUND)
        near = self.order.twice[around][unknown(around)]
        return np.union1d(rows, near[known_at.take(near) == 0])

    def note_verdict(self, row: int, *, passes: bool) -> None:
        """Filter was asked about one row."""
        place = self.order.place.item(row)
        again = place + self.order.count
        self.passing[place] = self.passing[again] = passes
        self.unjudged[place] = self.unjudged[again] = False

    def note_sum(self, row: int, total: int) -> None:
        """Score was asked about one row."""
        place = self.order.place.item(row)
        again = place + self.order.count
        self.sums[place] = self.sums[again] = total
        self.unscored[place] = self.unscored[again] = False

    def write(self, column: NDArray[Any], rows: Rows, values: Any) -> None:
        """Set the places of rows in one of the columns."""
        places = self.order.place.take(rows)
        column[places] = values
        column[places + self.order.count] = values

    @property
    def size(self) -> int:
        """Bytes."""
        return self.unjudged.nbytes + self.passing.nbytes + self.unscored.nbytes + self.sums.nbytes


class KeptAnswers:
    """What plugins that look at the pod alone answered at PreFilter or PreScore, and wrote for later."""

    __slots__ = ("_skipped", "answers", "is_plain", "to_ask", "written")

    def __init__(
        self, answers: Mapping[str, Any], written: Mapping[StateKey[Any], Any], to_ask: Sequence[Any]
    ) -> None:
        self.answers = answers
        """By plugin."""
        self.written = written
        self.to_ask = to_ask
        """The plugins whose answers are not kept."""
        skipped = {name for name, answer in answers.items() if isinstance(answer, Status) and answer.is_skip}
        self.is_plain = all(
            answer is None or answer == SUCCESS for name, answer in answers.items() if name not in skipped
        )
        """Whether nobody rejected the pod or narrowed the search."""
        self._skipped: dict[tuple[str, ...], frozenset[str]] = {(): frozenset(skipped)}

    def skipped_with(self, others: Sequence[str]) -> frozenset[str]:
        """Those that answered Skip, and some of those that were asked now: for the same the same set, since
        whoever looks it up has its hash then."""
        key = tuple(others)
        known = self._skipped.get(key)
        if known is None:
            known = self._skipped[key] = self._skipped[()].union(key)
        return known


class AnswerRecorder:
    """Notes what plugins answer and write at PreFilter or PreScore."""

    def __init__(self, state: CycleState) -> None:
        self._state = state
        self._before = state.written()
        self._answers: dict[str, Any] = {}
        self._written: dict[StateKey[Any], Any] = {}
        self._to_ask: list[Plugin] = []

    def note(self, plugin: Plugin, answer: object, depends_on: DependsOn) -> None:
        """The plugin was asked."""
        after = self._state.written()
        if plugin.reads is None or not (depends_on is DependsOn.POD or answer is SKIP_FOR_GOOD):
            self._to_ask.append(plugin)
        else:
            self._answers[plugin.name] = answer
            self._written.update(
                (key, value) for key, value in after.items() if self._before.get(key) is not value
            )
        self._before = after

    def kept(self) -> KeptAnswers:
        return KeptAnswers(self._answers, self._written, tuple(self._to_ask))


class KnownNodes:
    """What is known of the nodes for pods that no plugin can tell apart whose answers are kept."""

    __slots__ = ("__weakref__", "_scorers", "looks_at_pods", "places", "promised", "scores", "verdicts")

    def __init__(self, scorers: int = 0) -> None:
        """The number of plugins whose raw scores are kept."""
        self._scorers = scorers
        self.looks_at_pods = True
        """Whether some of what is kept depends on more of the pods on a node than what they ask for."""
        self.places: KnownPlaces | None = None
        self.verdicts = KeptVerdicts(0)
        """Of the filters that come before all that look beyond a node."""
        self.scores = KeptScores(0, 0)
        self.promised: dict[int, KeptVerdicts] = {}
        """Of the same filters, as if the pods were there that nodes are promised to; by priority."""

    def known(self, table: ClusterTable) -> KnownPlaces:
        """What is known as of now. Another order of nodes starts it afresh."""
        order = table.node_order()
        if self.places is None or self.places.order is not order:
            capacity = len(table.live)
            self.verdicts, self.scores = KeptVerdicts(capacity), KeptScores(self._scorers, capacity)
            self.places = KnownPlaces(order, table, looks_at_pods=self.looks_at_pods)
            self.promised.clear()
        else:
            self.places.catch_up(table)
        return self.places

    @property
    def size(self) -> int:
        """Bytes, columns only."""
        return (
            self.verdicts.size
            + self.scores.size
            + sum(verdicts.size for verdicts in self.promised.values())
            + (0 if self.places is None else self.places.size)
        )


class Plan:
    """What is known for pods of one signature."""

    __slots__ = ("memory", "nodes", "pre_filter", "pre_score")

    def __init__(self, nodes: KnownNodes) -> None:
        self.nodes = nodes
        """Shared with pods that differ only in what plugins read that are asked anew for each of them: the
        Deployments of many namespaces may all ask for the same."""
        self.memory: dict[StateKey[Any], tuple[Hashable, Any]] = {}
        """What plugins recall (`CycleState.recall`)."""
        self.pre_filter: KeptAnswers | None = None
        self.pre_score: KeptAnswers | None = None


class Plans:
    """The plans of one profile, for as long as its plugins are the same."""

    def __init__(self, plugins: Iterable[Plugin], *, max_bytes: int = MAX_BYTES) -> None:
        self._sign = signer(plugins)
        self._plans: OrderedDict[bytes, Plan] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._max_bytes = max_bytes
        self._uses = 0
        self._nodes: WeakValueDictionary[bytes | None, KnownNodes] = WeakValueDictionary()
        """By what the plugins read whose answers are kept."""
        self._kept: list[Plugin] = []
        self._sign_kept: Signer | None = None
        self._scorers = 0

    def keep_filters(self, plugins: Iterable[Plugin]) -> None:
        """The verdicts of these are kept; the runner says so before it asks for plans."""
        self._keep(plugins)

    def keep_scorers(self, plugins: Sequence[Plugin]) -> None:
        """The raw scores of these are kept."""
        self._scorers = len(plugins)
        self._keep(plugins)

    def _keep(self, plugins: Iterable[Plugin]) -> None:
        self._kept += plugins
        self._sign_kept = signer(self._kept)

    def plan_for(self, info: PodInfo) -> Plan | None:
        """The plan of pods like this one; None for the first of them."""
        if self._sign is None:
            return None
        signature = self._sign(info)
        if signature is None:
            return None
        plan = self._plans.get(signature)
        if plan is not None:
            self._plans.move_to_end(signature)
            self._uses += 1
            if self._uses % _CHECK_EVERY == 0:  # the cluster may have grown, and the plans with it
                self._drop_surplus()
            return plan
        if signature in self._seen:
            del self._seen[signature]
            self._drop_surplus()
            plan = self._plans[signature] = Plan(self._nodes_for(info))
            return plan
        self._seen[signature] = None
        if len(self._seen) > MAX_SIGNATURES:
            self._seen.popitem(last=False)
        return None

    def _nodes_for(self, info: PodInfo) -> KnownNodes:
        signature = None if self._sign_kept is None else self._sign_kept(info)
        nodes = self._nodes.get(signature)
        if nodes is None:
            nodes = self._nodes[signature] = KnownNodes(self._scorers)
        return nodes

    def _drop_surplus(self) -> None:
        """Plans over one table are about of one size, that of the one used last, which stays."""
        latest = next(reversed(self._plans.values()), None)
        if latest is not None:
            most = max(1, min(MAX_PLANS, self._max_bytes // max(latest.nodes.size, 1)))
            while len(self._plans) > most:
                self._plans.popitem(last=False)

    def __len__(self) -> int:
        return len(self._plans)


_CHECK_EVERY: Final = 64
_FEW_UNMET: Final = 8
_AROUND: Final = 1024
"""Places before and after a stretch."""
_MAX_OF_ZEROS: Final = 64
