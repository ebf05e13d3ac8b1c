"""The scheduling cycle of a pod that an extender is interested in: the same steps, with waiting in between.

In: a pod popped from the queue. Out: a `Placement` or a `Rejection`, as from the synchronous cycle. While an
extender answers, other pods are scheduled and the cluster changes. Therefore the result is checked against
the table again, by the same Filter code, in the step that assumes the pod. If the pod has changed, or others
have taken all its nodes, the cycle starts over.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Final

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.errors import ExtenderError
from kuberth.extenders import HttpExtender
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import PostFilterResult, Scores
from kuberth.framework.moments import Moment, moment
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import EXTENDER
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.running.scoring import NodeScores
from kuberth.framework.status import Status
from kuberth.informers.store import Stores
from kuberth.observe import verbosity
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.placement import Choice, Placement
from kuberth.outcomes.rejection import NO_NODES, Rejection
from kuberth.scheduling.cycle import SchedulingCycle, fits_nowhere

logger = logging.getLogger(__name__)

MAX_ROUNDS: Final = 10
"""How often a cycle starts over before the pod returns to the queue."""
MAX_TOTAL: Final = 2**62
"""A bound for sums with extenders' scores, so that no sum overflows."""
_PRIORITIZING: Final = ("prioritizing_extender",)


class Undecided(enum.Enum):
    """Results of a round without a decision."""

    OVERTAKEN = enum.auto()
    """The cycle starts over: other pods took the nodes, or the pod was updated."""
    GONE = enum.auto()
    """The pod needs no scheduling any more."""


@dataclass(slots=True, eq=False)
class ExtendedCycle:
    """Runs the steps of a `SchedulingCycle` for pods that have to wait; several cycles may run at once."""

    cycle: SchedulingCycle
    _: KW_ONLY
    cluster: ClusterTable
    nominator: Nominator
    stores: Stores
    derive: Callable[[Pod], PodInfo]
    metrics: SchedulerMetrics

    async def run(self, queued: QueuedPod, runner: Runner) -> Placement | Rejection | None:
        """Find a node for the pod and assume it there; None if the pod needs no scheduling any more."""
        started = time.perf_counter()
        for _round in range(MAX_ROUNDS):
            if self.follow(queued) is Undecided.GONE:
                return None
            outcome = await _Attempt(self, queued, runner, started).run()
            if outcome is Undecided.GONE:
                return None
            if outcome is not Undecided.OVERTAKEN:
                return outcome
        self.metrics.algorithm_duration.observe((), time.perf_counter() - started)
        problem = f"other pods took the nodes that extenders left to this one, {MAX_ROUNDS} times in a row"
        return Rejection(queued, Status.error(problem), runner, started)

    def follow(self, queued: QueuedPod) -> Undecided | None:
        """Use the pod's current version, if it differs in what scheduling reads."""
        old = queued.pod
        new = self.stores.of(Pod).get(old.metadata.name, namespace=old.metadata.namespace)
        if new is None or new.metadata.uid != old.metadata.uid or new.spec.node_name:
            return Undecided.GONE
        if new.metadata.deletion_timestamp is not None:
            return Undecided.GONE
        if new.spec == old.spec and new.metadata.labels == old.metadata.labels:
            return None
        queued.info = self.derive(new)
        return Undecided.OVERTAKEN

    def moment(self) -> Moment:
        """A value that changes whenever earlier results may be invalid."""
        return moment(self.cluster, self.nominator, self.stores)


class _Attempt:
    """Run one round: search, call extenders, filter again, assume."""

    def __init__(self, extended: ExtendedCycle, queued: QueuedPod, runner: Runner, started: float) -> None:
        self._extended = extended
        self._cycle = extended.cycle
        self._cluster = extended.cluster
        self._metrics = extended.metrics
        self._queued = queued
        self._pod = queued.pod
        self._runner = runner
        self._started = started
        self._bare = False
        """Whether an extender returned nodes as objects."""
        self._restart()

    def _restart(self) -> None:
        self._state = self._cycle.begin(self._queued)
        self._diagnosis = Diagnosis()
        self._seen = self._extended.moment()

    async def run(self) -> Placement | Rejection | Undecided:
        if self._cluster.node_count == 0:
            return self._rejected(Status.unresolvable(NO_NODES))
        left: Sequence[str] = ()
        evaluated = 1
        if self._pod.status.nominated_node_name:
            left = await self._nominated_node()
            if not left:
                self._restart()
        if not left:
            found = self._search()
            if isinstance(found, Status):
                return self._rejected(found)
            nodes, evaluated = found
            passed = await self._pass_filters(nodes.names(), self._diagnosis)
            if isinstance(passed, Status):
                return self._rejected(passed)
            left = passed
        if not left:
            return await self._post_filter()
        scores = await self._extender_scores(left) if len(left) > 1 else {}
        # From here to the end there is no await.
        if (changed := self._extended.follow(self._queued)) is not None:
            return changed
        choice = self._choose(left, scores, evaluated)
        if not isinstance(choice, Choice):
            return choice
        self._observe()
        return self._cycle.take(self._state, self._queued, self._runner, choice, self._started)

    def _search(self) -> tuple[Nodes, int] | Status:
        return self._cycle.nodes.run(
            self._state, self._pod, self._runner, self._diagnosis, nominated_first=False, diagnoses_all=True
        )

    # Waiting for filters

    async def _nominated_node(self) -> Sequence[str]:
        """The pod's nominated node, if it passes Filter and the extenders; otherwise None."""
        prepared = self._runner.pre_filtering.run(self._state, self._pod, self._cluster.all_nodes())
        if not prepared.status.is_success:
            return ()
        node = self._cycle.nodes.nominated_node(self._state, self._pod, self._runner)
        if node is None:
            return ()
        left = await self._pass_filters(node.names(), Diagnosis())
        if isinstance(left, Status):
            logger.error("Evaluation failed on nominated node: %s", left.message)
            return ()
        return left

    async def _pass_filters(self, names: Sequence[str], diagnosis: Diagnosis) -> Sequence[str] | Status:
        """The nodes that all extenders accept, called one after the other."""
        before = len(names)
        for extender in self._runner.extenders.filtering(self._pod):
            if not names:
                break
            try:
                passed = await extender.filter(self._pod, names)
            except ExtenderError as exc:
                if not extender.config.ignorable:
                    return Status.error(exc)
                logger.warning("Skipping extender as it returned error and has ignorable flag set: %s", exc)
                continue
            # Nodes in the answer that were not in the request are ignored.
            for name in names:
                if (why := passed.unresolvable.get(name)) is not None:
                    diagnosis.set(name, Status.unresolvable(why))
                elif (why := passed.failed.get(name)) is not None:
                    diagnosis.set(name, Status.unschedulable(why))
            names = passed.names
            self._bare = self._bare or not passed.by_name
        if len(names) != before:
            diagnosis.record_plugins((EXTENDER,))
        return names

    # Waiting for scores

    async def _extender_scores(self, names: Sequence[str]) -> Mapping[HttpExtender, Scores]:
        """What each extender adds to the sums, by node name."""
        extenders = self._runner.extenders.prioritizing(self._pod)
        answers = await asyncio.gather(*(self._scores_of(extender, names) for extender in extenders))
        return {
            extender: scores
            for extender, scores in zip(extenders, answers, strict=True)
            if scores is not None
        }

    async def _scores_of(self, extender: HttpExtender, names: Sequence[str]) -> Scores | None:
        self._metrics.goroutines.inc(_PRIORITIZING)
        try:
            given = await extender.prioritize(self._pod, names)
        except ExtenderError as exc:
            # The other scores decide: an extender's priorities are optional.
            logger.warning(
                "Failed to run extender's priority function. No score given by this extender. pod %s: %s",
                self._queued.key,
                exc,
            )
            return None
        finally:
            self._metrics.goroutines.inc(_PRIORITIZING, -1)
        sums = dict.fromkeys(names, 0)
        for name, score in given:
            if verbosity.level >= verbosity.ALL_SCORES_LEVEL:
                verbosity.log(
                    verbosity.ALL_SCORES_LEVEL,
                    "Extender scored node for pod",
                    pod=self._pod,
                    extender=extender.name,
                    node=name,
                    score=score,
                )
            if name in sums:
                sums[name] += score * extender.score_factor
        return np.array([max(-MAX_TOTAL, min(total, MAX_TOTAL)) for total in sums.values()], np.int64)

    # Choosing and assuming, in one step

    def _choose(
        self, names: Sequence[str], added: Mapping[HttpExtender, Scores], evaluated: int
    ) -> Choice | Rejection | Undecided:
        kept = names
        if self._extended.moment() != self._seen:
            self._restart()
            passing = self._cycle.nodes.still_passing(self._state, self._pod, self._runner, names)
            if isinstance(passing, Status):
                return self._rejected(passing)
            if not passing:
                return Undecided.OVERTAKEN
            kept = passing
        if len(kept) == 1:
            return Choice(kept[0], evaluated, len(names))
        chosen = set(kept)
        positions = [position for position, name in enumerate(names) if name in chosen]
        nodes = Nodes(self._cluster, np.array([self._cluster.row_of(name) for name in kept], np.int64))
        with self._as_scored(nodes) as state:
            scores = self._cycle.rank(state, self._pod, self._runner, nodes)
            if isinstance(scores, Status):
                return self._rejected(scores)
            if added:
                scores = _with_extenders(scores, {each: of[positions] for each, of in added.items()})
            best = self._cycle.best(scores)
            if verbosity.level >= verbosity.SCORES_LEVEL:
                verbosity.log_scores(self._pod, nodes.name, scores, best)
            table = self._cycle.score_table(nodes, scores, best)
        return Choice(nodes.name(best), evaluated, len(names), table)

    @contextmanager
    def _as_scored(self, nodes: Nodes) -> Iterator[CycleState]:
        """The nodes as kube-scheduler scores them; see `CycleState.scores_bare_nodes`."""
        if not self._bare:
            yield self._state
            return
        state, rows = self._state.clone(), nodes.rows()
        state.scores_bare_nodes = True
        with self._cluster.what_if_requests(rows) as what_if:
            what_if.set(np.zeros_like(self._cluster.amounts_at(rows)), rows)
            yield state

    # No node is left

    async def _post_filter(self) -> Rejection | Undecided:
        if self._extended.moment() != self._seen:
            # PreFilter data may be outdated; the verdicts show which nodes to try.
            self._state = self._cycle.begin(self._queued)
            prepared = self._runner.pre_filtering.run(self._state, self._pod, self._cluster.all_nodes())
            if not prepared.status.is_success:
                return Undecided.OVERTAKEN
        result: PostFilterResult | None = None
        if self._runner.profile.post_filter:
            result, self._diagnosis.post_filter = await self._runner.post_filtering.run_waiting(
                self._state, self._pod, self._diagnosis
            )
        self._observe()
        status = self._cycle.no_fit(self._diagnosis)
        return fits_nowhere(
            self._queued, self._runner, result, status, self._diagnosis, started=self._started
        )

    def _rejected(self, status: Status) -> Rejection:
        self._observe()
        return Rejection(self._queued, status, self._runner, self._started)

    def _observe(self) -> None:
        self._metrics.algorithm_duration.observe((), time.perf_counter() - self._started)


def _with_extenders(scores: NodeScores, added: Mapping[HttpExtender, Scores]) -> NodeScores:
    # Whole numbers without bounds: several extenders together could still leave the columns' range.
    totals = [int(total) for total in scores.totals]
    for column in added.values():
        totals = [total + int(more) for total, more in zip(totals, column, strict=True)]
    bounded = np.array([max(-MAX_TOTAL, min(total, MAX_TOTAL)) for total in totals], np.int64)
    names = tuple(extender.name for extender in added)
    return NodeScores(bounded, lambda: {**scores.by_plugin, **dict(zip(names, added.values(), strict=True))})
