"""The phase that ranks nodes: PreScore, Score, normalising and weighing.

In: a cycle state, a pod, the nodes that passed. Out: the weighted scores of every plugin and their sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.errors import PluginError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import DependsOn, Plugin, ScorePlugin, Scores
from kuberth.framework.nominator import Nominator
from kuberth.framework.plans import AnswerRecorder, KeptAnswers, KeptScores, KnownNodes, Plans, Rows
from kuberth.framework.profile import Profile
from kuberth.framework.running.asking import FEW_NODES, NORMALIZE, Phase, nonsense
from kuberth.framework.scores import MAX_NODE_SCORE, MIN_NODE_SCORE
from kuberth.framework.status import SKIP, SKIP_FOR_GOOD, SUCCESS, Code, Status
from kuberth.observe.metrics import SchedulerMetrics

_BIG: Final = 2**63


class _KeptScorer(NamedTuple):
    """A plugin whose raw scores a plan keeps."""

    plugin: ScorePlugin
    place: int
    weight: int
    """0 if its scores are still to be normalised."""
    looks_at_pods: bool


class _Scorers(NamedTuple):
    """The plugins that score a pod."""

    all: Sequence[tuple[ScorePlugin, int | None]]
    """Each with its place among those whose raw scores are kept."""
    names: tuple[str, ...]
    not_summed: Sequence[tuple[ScorePlugin, int | None]]
    """Those whose scores are not among a plan's sums."""
    kept: Sequence[_KeptScorer]


class NodeScores:
    """Weighted scores of nodes, and their sums."""

    __slots__ = ("_by_plugin", "_common", "plugins", "ranks")

    def __init__(
        self,
        plugins: tuple[str, ...],
        ranks: Scores,
        by_plugin: Callable[[], Sequence[Scores]],
        *,
        common: int = 0,
    ) -> None:
        self.plugins = plugins
        """Those that scored, in order."""
        self.ranks = ranks
        """int64[position]: the sums without what all nodes have in `common`; enough to see who is best."""
        self._common = common
        self._by_plugin = by_plugin

    @property
    def totals(self) -> Scores:
        """int64[position]: the sum over all plugins."""
        return self.ranks + self._common if self._common else self.ranks

    @property
    def by_plugin(self) -> Scores:
        """[plugin, position]: what each of them gave, weighted. To be asked before anything is placed."""
        return np.array(self._by_plugin(), np.int64).reshape(len(self.plugins), len(self.ranks))


class Scoring(Phase):
    """Asks PreScore and Score plugins."""

    def __init__(
        self,
        profile: Profile,
        *,
        cluster: ClusterTable,
        nominator: Nominator,
        metrics: SchedulerMetrics,
        plans: Plans | None = None,
    ) -> None:
        super().__init__(profile, cluster=cluster, nominator=nominator, metrics=metrics, plans=plans)
        self._scorers: dict[frozenset[str], _Scorers] = {}
        self._whole_table_score = {
            plugin.name: type(plugin).score_nodes is not ScorePlugin.score_nodes for plugin in profile.score
        }
        self._both_forms_of_score = frozenset(
            plugin.name for plugin in profile.score if type(plugin).score is not ScorePlugin.score
        )
        self._normalizing = {
            plugin.name
            for plugin in profile.score
            if type(plugin).normalize_scores is not ScorePlugin.normalize_scores
        }
        prepared_anew = {
            plugin.name for plugin in profile.pre_score if plugin.pre_score_depends_on is not DependsOn.POD
        }
        kept = [
            plugin
            for plugin in profile.score
            if plugin.reads is not None
            and plugin.score_depends_on is not DependsOn.CLUSTER
            and plugin.name not in prepared_anew
        ]
        self._kept_scorers = {plugin.name: index for index, plugin in enumerate(kept)}
        self._kept_weights = np.array(
            [
                0 if plugin.name in self._normalizing else profile.score_weights[plugin.name]
                for plugin in kept
            ],
            np.int64,
        )
        if plans is not None:
            plans.keep_scorers(kept)

    def run_pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        started = time.perf_counter()
        plan, plugins = state.plan, self.profile.pre_score
        recorder = None
        kept: KeptAnswers | None = None
        skipped: list[str] = []
        if plan is not None:
            if plan.pre_score is None:
                recorder = AnswerRecorder(state)
            elif plan.pre_score.is_plain:
                kept = plan.pre_score
                state.write_all(kept.written)
                plugins = kept.to_ask
        outcome = SUCCESS
        for plugin in plugins:
            self._asked.evaluated(plugin, "PreScore")
            answer = self._asked.ask(
                plugin, "PreScore", plugin.pre_score, state, pod, nodes, timed=state.record_plugin_metrics
            )
            if recorder is not None:
                recorder.note(plugin, answer, plugin.pre_score_depends_on)
            if answer is SKIP or answer is SKIP_FOR_GOOD:  # as nearly always
                skipped.append(plugin.name)
                continue
            status = self._asked.checked(plugin, "PreScore", answer)
            if status.code == Code.SKIP:
                skipped.append(plugin.name)
            elif not status.is_success:
                outcome = status
                break
        state.skip_score = frozenset(skipped) if kept is None else kept.skipped_with(skipped)
        if plan is not None and recorder is not None and outcome is SUCCESS:
            plan.pre_score = recorder.kept()
        self._asked.observe("PreScore", outcome, started)
        return outcome

    def run_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeScores | Status:
        """Score, normalise, check the range, weigh and add up."""
        started = time.perf_counter()
        outcome = self._score(state, pod, nodes)
        self._asked.observe("Score", outcome if isinstance(outcome, Status) else SUCCESS, started)
        return outcome

    def _score(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeScores | Status:
        weights = self.profile.score_weights
        scorers = self._scorers_without(state.skip_score)
        kept = self._known_nodes(scorers, state, pod, nodes)
        totals, common = None, 0
        parts: dict[str, Scores | int] = {}
        if kept is not None and kept.places is not None and nodes.places is not None:
            totals = kept.places.sums[nodes.places]
        for plugin, index in scorers.all if kept is None else scorers.not_summed:
            scores: Scores | Status | int | None
            if kept is None or index is None:
                raw = self._raw_scores(plugin, state, pod, nodes)
                scores = self._final_scores(plugin, state, pod, nodes, raw)
            else:
                scores = self._normalized_kept(kept.scores, index, plugin, state, pod, nodes)
            if scores is None:
                continue
            if isinstance(scores, Status):
                return scores
            part = parts[plugin.name] = scores * weights[plugin.name]
            if isinstance(part, int):
                common += part
            else:
                totals = part if totals is None else totals + part
        if totals is None:
            totals = np.zeros(len(nodes), np.int64)

        def by_plugin() -> list[Scores]:
            found = []
            for plugin, _index in scorers.all:
                part = parts.get(plugin.name, 0)
                index = self._kept_scorers.get(plugin.name)
                if plugin.name not in parts and kept is not None and index is not None:
                    part = nodes.take(kept.scores.matrix[index]) * weights[plugin.name]
                found.append(np.full(len(nodes), part, np.int64) if isinstance(part, int) else part)
            return found

        return NodeScores(scorers.names, totals, by_plugin, common=common)

    def _scorers_without(self, skipped: frozenset[str]) -> _Scorers:
        """The plugins that score; pods rarely differ in that."""
        known = self._scorers.get(skipped)
        if known is None:
            plugins = [plugin for plugin in self.profile.score if plugin.name not in skipped]
            indexed = [(plugin, self._kept_scorers.get(plugin.name)) for plugin in plugins]
            known = self._scorers[skipped] = _Scorers(
                all=indexed,
                names=tuple(plugin.name for plugin in plugins),
                not_summed=[
                    (plugin, index)
                    for plugin, index in indexed
                    if index is None or plugin.name in self._normalizing
                ],
                kept=[
                    _KeptScorer(
                        plugin,
                        index,
                        self._kept_weights.item(index),
                        looks_at_pods=plugin.score_depends_on.looks_at_pods,
                    )
                    for plugin, index in indexed
                    if index is not None
                ],
            )
        return known

    def _normalized_kept(
        self, kept: KeptScores, index: int, plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes
    ) -> Scores | Status | int | None:
        """The final scores of a plugin whose raw ones are kept; a number: that for all.

        Zeros are the rule, and normalise alike.
        """
        known = kept.of_zeros(index, len(nodes))
        if known is not None:
            return known
        # A copy: a plugin may normalise in place.
        scores = self._final_scores(plugin, state, pod, nodes, kept.matrix[index].take(nodes.rows()))
        if not isinstance(scores, Status) and scores is not None and index not in kept.some:
            kept.keep_of_zeros(index, scores)
        return scores

    def _final_scores(
        self, plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes, raw: Scores | Status | None
    ) -> Scores | Status | None:
        """Raw scores normalised and found to be in range; None: all are zero."""
        if isinstance(raw, Status):
            return raw
        if plugin.name not in self._normalizing:
            if raw is None or not np.count_nonzero(raw):
                return None
            return self._within_range(plugin, raw, nodes)
        scores = self._normalized(plugin, state, pod, _zeros(nodes) if raw is None else raw)
        return scores if isinstance(scores, Status) else self._within_range(plugin, scores, nodes)

    def _known_nodes(self, scorers: _Scorers, state: CycleState, pod: Pod, nodes: Nodes) -> KnownNodes | None:
        """What a plan knows, its raw scores true of every node of the view; None without one or if a plugin
        fails."""
        plan, places = state.plan, nodes.places
        if plan is None or places is None or self._cluster.is_supposing:
            return None
        kept = plan.nodes
        known = kept.known(self._cluster)
        unscored = known.unscored[places]
        if np.count_nonzero(unscored):
            rows = nodes.rows()[unscored]
            more = known.with_neighbours(rows, places, known.to_score, kept.scores.scored_at)
            # As in Filter: what fails for a neighbour is not this pod's affair.
            if (more is None or not self._rescore(kept, scorers, more, state, pod)) and not self._rescore(
                kept, scorers, rows, state, pod
            ):
                return None
        return kept

    def _rescore(self, nodes: KnownNodes, scorers: _Scorers, rows: Rows, state: CycleState, pod: Pod) -> bool:
        """Score rows anew. False: a plugin failed, and what comes of that is to be seen without a plan."""
        table, kept, known = self._cluster, nodes.scores, nodes.places
        assert known is not None
        if len(rows) <= FEW_NODES:
            return all(self._rescore_one(nodes, scorers, row, state, pod) for row in rows.tolist())
        renewed = rows[table.node_generation.take(rows) > kept.scored_at.take(rows)]
        for plugin, index, _weight, looks_at_pods in scorers.kept:
            some = rows if looks_at_pods else renewed
            if not len(some):
                continue
            view = Nodes(table, some)
            scores = self._raw_scores(plugin, state, pod, view)
            if isinstance(scores, Status):
                return False
            if scores is None:
                scores = _zeros(view)
            if plugin.name not in self._normalizing and isinstance(
                self._within_range(plugin, scores, view), Status
            ):
                return False
            kept.matrix[index][some] = scores
            if index not in kept.some and np.count_nonzero(scores):
                kept.some.add(index)
        kept.scored_at[rows] = table.generation
        known.write(known.sums, rows, self._kept_weights @ kept.matrix[:, rows])
        known.write(known.unscored, rows, False)
        return True

    def _rescore_one(
        self, nodes: KnownNodes, scorers: _Scorers, row: int, state: CycleState, pod: Pod
    ) -> bool:
        """The same of one row, without arrays."""
        table, kept, known = self._cluster, nodes.scores, nodes.places
        assert known is not None
        node, total = NodeRow(table, row), 0
        is_renewed = table.node_generation.item(row) > kept.scored_at.item(row)
        for plugin, index, weight, looks_at_pods in scorers.kept:
            if looks_at_pods or is_renewed:
                score = self._raw_score(plugin, state, pod, node)
                if score is None:
                    return False
                kept.matrix[index, row] = score
                if score:
                    kept.some.add(index)
            elif not weight:
                continue
            else:
                score = kept.matrix.item(index, row)
            if weight:
                if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                    return False
                total += weight * score
        kept.scored_at[row] = table.generation
        known.note_sum(row, total)
        return True

    def _raw_score(self, plugin: ScorePlugin, state: CycleState, pod: Pod, node: NodeRow) -> int | None:
        """What the plugin says of one node; None: it fails."""
        if plugin.name in self._both_forms_of_score:
            self._asked.evaluated(plugin, "Score")
            timed = state.record_plugin_metrics
            score = self._asked.ask(plugin, "Score", plugin.score, state, pod, node, timed=timed)
            return int(score) if _is_score(score) else None
        scores = self._raw_scores(plugin, state, pod, node.alone)
        if isinstance(scores, Status):
            return None
        return 0 if scores is None else int(scores[0])

    def _raw_scores(
        self, plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes
    ) -> Scores | Status | None:
        """What the plugin says of the nodes; None: all get zero."""
        self._asked.evaluated(plugin, "Score", len(nodes))
        answer: object
        if self._whole_table_score[plugin.name] and not (
            len(nodes) <= FEW_NODES and plugin.name in self._both_forms_of_score
        ):
            answer = self._asked.ask(
                plugin, "Score", plugin.score_nodes, state, pod, nodes, timed=state.record_plugin_metrics
            )
            if isinstance(answer, Status) and answer.is_skip:
                return None
        else:
            answer = self._score_each(plugin, state, pod, nodes)
        return self._score_array(plugin, answer, len(nodes))

    def _normalized(
        self, plugin: ScorePlugin, state: CycleState, pod: Pod, scores: Scores
    ) -> Scores | Status:
        answer = self._asked.ask(
            plugin,
            NORMALIZE,
            plugin.normalize_scores,
            state,
            pod,
            scores,
            timed=state.record_plugin_metrics,
        )
        return scores if answer is None else self._score_array(plugin, answer, len(scores), point=NORMALIZE)

    def _within_range(self, plugin: ScorePlugin, scores: Scores, nodes: Nodes) -> Scores | Status:
        """The scores, or an Error if some node got less than 0 or more than 100."""
        # As unsigned numbers, negative ones are the largest of all.
        wrong = scores.view(np.uint64) > MAX_NODE_SCORE
        if not np.count_nonzero(wrong):
            return scores
        worst = int(np.argmax(wrong))
        return Status.error(
            PluginError(
                plugin.name,
                "Score",
                f"returns an invalid score {scores[worst]} for node {nodes.name(worst)}, "
                f"it should be in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing",
            ),
            plugin=plugin.name,
        )

    def _score_each(self, plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> object:
        scores = np.zeros(len(nodes), np.int64)
        for position in range(len(nodes)):
            score = self._asked.ask(
                plugin,
                "Score",
                plugin.score,
                state,
                pod,
                nodes.node(position),
                timed=state.record_plugin_metrics,
            )
            if isinstance(score, Status):
                return score
            if not _is_score(score):
                return nonsense(plugin, "Score", score, "a whole number")
            scores[position] = score
        return scores

    def _score_array(
        self, plugin: Plugin, answer: object, length: int, *, point: str = "Score"
    ) -> NDArray[np.int64] | Status:
        if isinstance(answer, Status):
            status = self._asked.checked(plugin, point, answer)
            return (
                nonsense(plugin, point, answer, "scores or an Error status") if status.is_success else status
            )
        if type(answer) is np.ndarray and answer.dtype == np.int64 and answer.shape == (length,):
            return answer
        try:
            scores = np.asarray(answer)
        except ValueError:  # lists of different lengths
            return nonsense(plugin, point, answer, f"{length} whole numbers")
        if scores.shape != (length,) or not np.issubdtype(scores.dtype, np.integer):
            if length == 0 and scores.shape == (0,):
                return np.zeros(0, np.int64)
            return nonsense(plugin, point, answer, f"{length} whole numbers")
        return scores.astype(np.int64, copy=False)


def _zeros(nodes: Nodes) -> Scores:
    return np.zeros(len(nodes), np.int64)


def _is_score(answer: object) -> bool:
    if type(answer) is int:  # as nearly always
        return -_BIG <= answer < _BIG
    if not isinstance(answer, int | np.integer) or isinstance(answer, bool):
        return False
    return bool(-_BIG <= answer < _BIG)
