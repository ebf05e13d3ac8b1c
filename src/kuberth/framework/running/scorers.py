"""Score plugins, called for a view of nodes or for one node.

In: a cycle state after PreScore, a pod, feasible nodes. Out: raw and normalized scores, validated to be
integers and, after normalizing, in range; or an Error status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.errors import PluginError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import Plugin, ScorePlugin, Scores
from kuberth.framework.running.calls import FEW_NODES, NORMALIZE, Calls, invalid_answer, raised
from kuberth.framework.scores import MAX_NODE_SCORE, MIN_NODE_SCORE
from kuberth.framework.status import Status

_LIMIT: Final = 2**63


class Scorer:
    """One Score plugin with its weight and the forms that it implements."""

    __slots__ = ("has_both", "is_per_node", "labels", "name", "normalizes", "plugin", "weight")

    def __init__(self, plugin: ScorePlugin, weight: int, profile_name: str) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.labels = (plugin.name, "Score", profile_name)
        """The key under which its evaluations are counted."""
        self.weight = weight
        self.normalizes = type(plugin).normalize_scores is not ScorePlugin.normalize_scores
        per_node = type(plugin).score is not ScorePlugin.score
        whole = type(plugin).score_nodes is not ScorePlugin.score_nodes
        self.is_per_node = not whole
        self.has_both = per_node and whole


class Scorers:
    """Calls the Score plugins of one profile."""

    def __init__(self, plugins: Sequence[ScorePlugin], weights: Mapping[str, int], calls: Calls) -> None:
        self.all = tuple(Scorer(plugin, weights[plugin.name], calls.profile_name) for plugin in plugins)
        """In order."""
        self._calls = calls
        self._evaluations = calls.evaluations

    def raw(self, scorer: Scorer, state: CycleState, pod: Pod, nodes: Nodes) -> Scores | Status | None:
        """The plugin's scores of the nodes; None: zero for all."""
        plugin, point, length = scorer.plugin, "Score", len(nodes)
        self._evaluations[scorer.labels] = self._evaluations.get(scorer.labels, 0) + length
        answer: object
        if scorer.is_per_node or (scorer.has_both and length <= FEW_NODES):
            answer = self._each_node(scorer, state, pod, nodes)
        else:
            timed = state.record_plugin_metrics
            answer = self._calls.call(plugin, point, plugin.score_nodes, state, pod, nodes, timed=timed)
            if isinstance(answer, Status) and answer.is_skip:
                return None
        return self._array(plugin, answer, length)

    def raw_of_one(self, scorer: Scorer, state: CycleState, pod: Pod, node: NodeRow) -> int | None:
        """The plugin's score of one node; None if it failed."""
        if scorer.is_per_node or scorer.has_both:
            self._evaluations[scorer.labels] = self._evaluations.get(scorer.labels, 0) + 1
            if state.record_plugin_metrics:
                return _whole_number(self._call_for_node(scorer, state, pod, node))
            plugin, point = scorer.plugin, "Score"
            try:
                score = plugin.score(state, pod, node)
            except BaseException as exc:
                raised(plugin, point, exc)
                return None
            return score if type(score) is int and -_LIMIT <= score < _LIMIT else _whole_number(score)
        scores = self.raw(scorer, state, pod, node.alone)
        if isinstance(scores, Status):
            return None
        return 0 if scores is None else int(scores[0])

    def final(
        self, scorer: Scorer, state: CycleState, pod: Pod, nodes: Nodes, raw: Scores | Status | None
    ) -> Scores | Status | None:
        """Raw scores, normalized and validated; None: zero for all."""
        if isinstance(raw, Status):
            return raw
        if not scorer.normalizes:
            if raw is None or not len(raw.nonzero()[0]):
                return None
            return self.within_range(scorer, raw, nodes)
        scores: Scores | Status = np.zeros(len(nodes), np.int64) if raw is None else raw
        plugin = scorer.plugin
        timed = state.record_plugin_metrics
        answer = self._calls.call(plugin, NORMALIZE, plugin.normalize_scores, state, pod, scores, timed=timed)
        if answer is not None:
            scores = self._array(plugin, answer, len(nodes), point=NORMALIZE)
        return scores if isinstance(scores, Status) else self.within_range(scorer, scores, nodes)

    def within_range(self, scorer: Scorer, scores: Scores, nodes: Nodes) -> Scores | Status:
        """The scores, or an Error if any is below 0 or above 100."""
        # Compared as unsigned numbers, where negative ones are the largest.
        unsigned = scores.view(np.uint64)
        if np.maximum.reduce(unsigned, initial=0) <= MAX_NODE_SCORE:
            return scores
        worst = int(np.argmax(unsigned > MAX_NODE_SCORE))
        return Status.error(
            PluginError(
                scorer.name,
                "Score",
                f"returns an invalid score {scores[worst]} for node {nodes.name(worst)}, "
                f"it should be in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing",
            ),
            plugin=scorer.name,
        )

    def _call_for_node(self, scorer: Scorer, state: CycleState, pod: Pod, node: NodeRow) -> object:
        plugin, timed = scorer.plugin, state.record_plugin_metrics
        return self._calls.call(plugin, "Score", plugin.score, state, pod, node, timed=timed)

    def _each_node(self, scorer: Scorer, state: CycleState, pod: Pod, nodes: Nodes) -> object:
        scores = np.zeros(len(nodes), np.int64)
        for position in range(len(nodes)):
            score = self._call_for_node(scorer, state, pod, nodes.node(position))
            if isinstance(score, Status) and not score.is_success:
                return score
            number = _whole_number(score)
            if number is None:
                return invalid_answer(scorer.plugin, "Score", score, "a whole number or an Error status")
            scores[position] = number
        return scores

    def _array(self, plugin: Plugin, answer: object, length: int, *, point: str = "Score") -> Scores | Status:
        if type(answer) is np.ndarray and answer.dtype == np.int64 and answer.shape == (length,):
            return answer
        if isinstance(answer, Status):
            status = self._calls.checked(plugin, point, answer)
            return (
                invalid_answer(plugin, point, answer, _array_of(length, point))
                if status.is_success
                else status
            )
        try:
            scores: NDArray[np.generic] = np.asarray(answer)
        except ValueError:  # lists of different lengths
            return invalid_answer(plugin, point, answer, _array_of(length, point))
        if scores.shape != (length,) or not np.issubdtype(scores.dtype, np.integer):
            if length == 0 and scores.shape == (0,):
                return np.zeros(0, np.int64)
            return invalid_answer(plugin, point, answer, _array_of(length, point))
        return scores.astype(np.int64, copy=False)


def _array_of(length: int, point: str) -> str:
    nothing = "or None" if point == NORMALIZE else "or SKIP"
    return f"an array of {length} whole numbers, an Error status {nothing}"


def _whole_number(answer: object) -> int | None:
    """The answer as a 64-bit integer; None if it is not one."""
    if type(answer) is int:  # the usual case
        return answer if -_LIMIT <= answer < _LIMIT else None
    if not isinstance(answer, int | np.integer) or isinstance(answer, bool):
        return None
    return int(answer) if -_LIMIT <= answer < _LIMIT else None
