"""The phase that ranks nodes: PreScore, Score, normalising and weighing.

In: a cycle state, a pod, the nodes that passed. Out: the weighted scores of every plugin and their sums.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.errors import PluginError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import Plugin, ScorePlugin
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import Profile
from kuberth.framework.running.asking import NORMALIZE, Phase, nonsense
from kuberth.framework.scores import MAX_NODE_SCORE, MIN_NODE_SCORE
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.observe.metrics import SchedulerMetrics

_BIG: Final = 2**63


class NodeScores(NamedTuple):
    """Weighted scores: one row per plugin in `plugins`, one column per node, and their sums."""

    plugins: tuple[str, ...]
    by_plugin: NDArray[np.int64]
    totals: NDArray[np.int64]


class Scoring(Phase):
    """Asks PreScore and Score plugins."""

    def __init__(
        self, profile: Profile, *, cluster: ClusterTable, nominator: Nominator, metrics: SchedulerMetrics
    ) -> None:
        super().__init__(profile, cluster=cluster, nominator=nominator, metrics=metrics)
        self._whole_table_score = {
            plugin.name: type(plugin).score_nodes is not ScorePlugin.score_nodes for plugin in profile.score
        }
        self._normalizing = {
            plugin.name
            for plugin in profile.score
            if type(plugin).normalize_scores is not ScorePlugin.normalize_scores
        }

    def run_pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        started = time.perf_counter()
        skipped: set[str] = set()
        outcome = SUCCESS
        for plugin in self.profile.pre_score:
            self._asked.evaluated(plugin, "PreScore")
            status = self._asked.status(
                plugin, "PreScore", plugin.pre_score, state, pod, nodes, timed=state.record_plugin_metrics
            )
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
            elif not status.is_success:
                outcome = status
                break
        state.skip_score = frozenset(skipped)
        self._asked.observe("PreScore", outcome, started)
        return outcome

    def run_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeScores | Status:
        """Score, normalise, check the range, weigh and add up."""
        started = time.perf_counter()
        plugins = [plugin for plugin in self.profile.score if plugin.name not in state.skip_score]
        by_plugin = np.zeros((len(plugins), len(nodes)), np.int64)
        outcome: NodeScores | Status
        for index, plugin in enumerate(plugins):
            self._asked.evaluated(plugin, "Score", len(nodes))
            scores = self._scores(plugin, state, pod, nodes)
            if isinstance(scores, Status):
                outcome = scores
                break
            np.multiply(scores, self.profile.score_weights[plugin.name], out=by_plugin[index])
        else:
            outcome = NodeScores(tuple(plugin.name for plugin in plugins), by_plugin, by_plugin.sum(axis=0))
        self._asked.observe("Score", outcome if isinstance(outcome, Status) else SUCCESS, started)
        return outcome

    def _scores(
        self, plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes
    ) -> NDArray[np.int64] | Status:
        """One plugin's normalised scores of all nodes, each from 0 to 100."""
        answer: object
        if self._whole_table_score[plugin.name]:
            answer = self._asked.ask(
                plugin, "Score", plugin.score_nodes, state, pod, nodes, timed=state.record_plugin_metrics
            )
        else:
            answer = self._score_each(plugin, state, pod, nodes)
        scores = self._score_array(plugin, answer, len(nodes))
        if isinstance(scores, Status):
            return scores
        if plugin.name in self._normalizing:
            normalized = self._asked.ask(
                plugin,
                NORMALIZE,
                plugin.normalize_scores,
                state,
                pod,
                scores,
                timed=state.record_plugin_metrics,
            )
            if normalized is not None:
                scores = self._score_array(plugin, normalized, len(nodes), point=NORMALIZE)
                if isinstance(scores, Status):
                    return scores
        if len(scores) and (scores.min() < MIN_NODE_SCORE or scores.max() > MAX_NODE_SCORE):
            worst = int(np.argmax((scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)))
            return Status.error(
                PluginError(
                    plugin.name,
                    "Score",
                    f"returns an invalid score {scores[worst]} for node {nodes.name(worst)}, "
                    f"it should be in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing",
                ),
                plugin=plugin.name,
            )
        return scores

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
            if not isinstance(score, int | np.integer) or isinstance(score, bool) or not -_BIG < score < _BIG:
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
        try:
            scores = np.asarray(answer)
        except ValueError:  # lists of different lengths
            return nonsense(plugin, point, answer, f"{length} whole numbers")
        if scores.shape != (length,) or not np.issubdtype(scores.dtype, np.integer):
            if length == 0 and scores.shape == (0,):
                return np.zeros(0, np.int64)
            return nonsense(plugin, point, answer, f"{length} whole numbers")
        return scores.astype(np.int64, copy=False)
