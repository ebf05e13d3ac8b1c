"""The scoring phases: PreScore, Score, normalizing and weighting.

In: a cycle state, a pod, the feasible nodes. Out: the weighted scores of every plugin and their sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.equal_pods import EqualPods
from kuberth.framework.extension_points import PreScorePlugin, Scores
from kuberth.framework.plan import Plan
from kuberth.framework.profile import Profile
from kuberth.framework.running.calls import Calls
from kuberth.framework.running.scorers import Scorer, Scorers
from kuberth.framework.status import SKIP, SUCCESS, Code, Status


class NodeScores:
    """Weighted scores of nodes, and their sums."""

    __slots__ = ("_common", "_parts", "ranks")

    def __init__(self, ranks: Scores, parts: Callable[[], Mapping[str, Scores]], *, common: int = 0) -> None:
        """`parts`: the scores of each plugin, in order."""
        self.ranks = ranks
        """int64[position]: the sums without constants that all nodes share; enough to compare nodes."""
        self._parts = parts
        self._common = common

    @property
    def totals(self) -> Scores:
        """int64[position]: the sum over all plugins."""
        return self.ranks + self._common if self._common else self.ranks

    @property
    def by_plugin(self) -> Mapping[str, Scores]:
        """By plugin, in order: int64[position], weighted. Read it before anything is placed."""
        return self._parts()


class Scoring:
    """Calls PreScore and Score plugins."""

    def __init__(self, profile: Profile, *, cluster: ClusterTable, calls: Calls, scorers: Scorers) -> None:
        self._plugins = profile.pre_score
        self._cluster = cluster
        self._calls = calls
        self._scorers = scorers
        self._all = scorers.all

    def run_pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        """Call every PreScore plugin; if a plugin skips, its Score is not called either."""
        started = time.perf_counter()
        state.candidates = nodes
        equal_pods = state.equal_pods
        skipped: list[str] = []
        outcome = SUCCESS
        plugins = self._plugins if equal_pods is None else equal_pods.pre_score
        if plugins:
            outcome = self._call_plugins(plugins, state, pod, nodes, skipped)
        state.skip_score = frozenset(skipped) if equal_pods is None else equal_pods.skip_score(skipped)
        self._calls.observe("PreScore", outcome, started)
        return outcome

    def _call_plugins(
        self,
        plugins: Sequence[PreScorePlugin],
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        skipped: list[str],
    ) -> Status:
        timed = state.record_plugin_metrics
        for plugin in plugins:
            self._calls.evaluated(plugin.name, "PreScore")
            answer = self._calls.call(plugin, "PreScore", plugin.pre_score, state, pod, nodes, timed=timed)
            status = SKIP if answer is SKIP else self._calls.checked(plugin, "PreScore", answer)
            if status.code == Code.SKIP:
                skipped.append(plugin.name)
            elif not status.is_success:
                return status
        return SUCCESS

    def run(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeScores | Status:
        """Score, normalize, validate, weight and add up."""
        started = time.perf_counter()
        equal_pods = state.equal_pods
        scores: NodeScores | Status | None = None
        if equal_pods is not None and equal_pods.plan is not None and not self._cluster.is_supposing:
            scores = self._with_plan(equal_pods, equal_pods.plan, state, pod, nodes)
        if scores is None:
            scores = self._without_plan(state, pod, nodes)
        self._calls.observe("Score", scores if isinstance(scores, Status) else SUCCESS, started)
        return scores

    def _without_plan(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeScores | Status:
        scorers = [each for each in self._all if each.name not in state.skip_score]
        sums = _Sums(None)
        for scorer in scorers:
            raw = self._scorers.raw(scorer, state, pod, nodes)
            scores = self._scorers.final(scorer, state, pod, nodes, raw)
            if isinstance(scores, Status):
                return scores
            sums.add(scorer, scores)
        return sums.scores(len(nodes), lambda: sums.parts(scorers, len(nodes)))

    def _with_plan(
        self, equal_pods: EqualPods, plan: Plan, state: CycleState, pod: Pod, nodes: Nodes
    ) -> NodeScores | Status | None:
        """The scores, partly from the plan; None if the plan does not cover these nodes."""
        totals = None if nodes.places is None else plan.totals(nodes.places, state, pod)
        if totals is None:
            return None
        number = len(totals)
        sums = _Sums(totals)
        for index, scorer in plan.kept.normalizing:
            constant = plan.constant(index, number)
            if constant is not None:
                sums.add(scorer, constant)
                continue
            raw = plan.raw_scores(index, nodes.rows())  # a copy: a plugin may normalize in place
            scores = self._scorers.final(scorer, state, pod, nodes, raw)
            if isinstance(scores, Status):
                return scores
            if scores is not None:
                plan.record_constant(index, scores)
            sums.add(scorer, scores)
        for scorer in equal_pods.uncached_scorers:
            if scorer.name not in state.skip_score:
                raw_scores = self._scorers.raw(scorer, state, pod, nodes)
                scores = self._scorers.final(scorer, state, pod, nodes, raw_scores)
                if isinstance(scores, Status):
                    return scores
                sums.add(scorer, scores)

        def parts() -> Mapping[str, Scores]:
            for name, index in equal_pods.kept_scorers.items():
                scorer = plan.kept.scorers[index].scorer
                if not scorer.normalizes:
                    sums.found[name] = plan.raw_scores(index, nodes.rows()) * scorer.weight
            return sums.parts(
                [each for each in equal_pods.scored_by if each.name not in state.skip_score], number
            )

        return sums.scores(number, parts)


class _Sums:
    """Adds up weighted scores."""

    __slots__ = ("common", "found", "totals")

    def __init__(self, totals: Scores | None) -> None:
        self.totals = totals
        self.common = 0
        """The sum of constants that all nodes share."""
        self.found: dict[str, Scores | int] = {}
        """Scores by plugin; a number if it applies to all nodes."""

    def add(self, scorer: Scorer, scores: Scores | int | None) -> None:
        """Add the normalized scores of one plugin; None: zero for all."""
        if scores is None:
            return
        part = self.found[scorer.name] = scores * scorer.weight
        if isinstance(part, int):
            self.common += part
        else:
            self.totals = part if self.totals is None else self.totals + part

    def parts(self, scorers: Iterable[Scorer], number: int) -> Mapping[str, Scores]:
        """The scores by plugin, in this order."""
        return {
            each.name: np.full(number, part, np.int64) if isinstance(part, int) else part
            for each in scorers
            if (part := self.found.get(each.name, 0)) is not None
        }

    def scores(self, number: int, parts: Callable[[], Mapping[str, Scores]]) -> NodeScores:
        """The sums over this number of nodes."""
        ranks = np.zeros(number, np.int64) if self.totals is None else self.totals
        return NodeScores(ranks, parts, common=self.common)
