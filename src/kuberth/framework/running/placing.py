"""The phases that choose a part of the cluster for a pod group: PlacementGenerate, PlacementScore.

In: a group and the nodes. Out: the parts on which it may be placed, and the scores of those on which it fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.framework.cycle_state import GroupAttempt
from kuberth.framework.extension_points import (
    PlacementCandidate,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
    ProposedPlacement,
)
from kuberth.framework.profile import Profile
from kuberth.framework.running.calls import Calls, invalid_answer
from kuberth.framework.scores import MAX_NODE_SCORE, MIN_NODE_SCORE
from kuberth.framework.status import SUCCESS, Status

_CANDIDATES: Final = "a sequence of PlacementCandidate, or a Status that says why there are none,"

NO_PLACEMENTS = "no feasible placements found"


class Placing:
    """Calls the plugins that evaluate a group as a whole."""

    def __init__(self, profile: Profile, *, calls: Calls) -> None:
        self._profile = profile
        self._calls = calls

    @property
    def group_post_filter(self) -> PodGroupPostFilterPlugin | None:
        """The plugin that preempts for whole groups, if the profile has one."""
        plugins = (each for each in self._profile.post_filter if isinstance(each, PodGroupPostFilterPlugin))
        return next(plugins, None)

    def run_group_post_filter(
        self,
        plugin: PodGroupPostFilterPlugin,
        key: str,
        pods: Sequence[PodInfo],
        what_if: LoggedWhatIf,
        try_again: Callable[[], Status],
    ) -> Status:
        """Let the plugin preempt for a group. Success: victims are being evicted."""
        return self._calls.status(
            plugin, "PostFilter", plugin.post_filter_group, key, pods, what_if, try_again, timed=True
        )

    def run_placement_generate(
        self, attempt: GroupAttempt, nodes: Nodes
    ) -> Sequence[PlacementCandidate] | Status:
        """The parts of the cluster to try; without a plugin, the whole cluster."""
        if not self._profile.placement_generate:
            return [PlacementCandidate("", nodes)]
        started = time.perf_counter()
        plugin = self._profile.placement_generate[0]
        answer = self._calls.call(
            plugin,
            "PlacementGenerate",
            plugin.generate_placements,
            attempt.state,
            attempt.key,
            nodes,
            timed=True,
        )
        outcome: Sequence[PlacementCandidate] | Status
        if isinstance(answer, Status):
            outcome = self._calls.checked(plugin, "PlacementGenerate", answer)
            if outcome.is_success:
                outcome = invalid_answer(plugin, "PlacementGenerate", answer, _CANDIDATES)
        elif not isinstance(answer, Sequence) or not all(
            isinstance(candidate, PlacementCandidate) for candidate in answer
        ):
            outcome = invalid_answer(plugin, "PlacementGenerate", answer, _CANDIDATES)
        else:
            outcome = answer or Status.unschedulable(NO_PLACEMENTS).by(plugin.name)
        status = outcome if isinstance(outcome, Status) else SUCCESS
        self._calls.observe("PlacementGenerate", status, started)
        return outcome

    def run_placement_score(
        self, attempt: GroupAttempt, proposed: Sequence[ProposedPlacement]
    ) -> Sequence[int] | Status:
        """The weighted sum of all plugins' scores for each proposal."""
        started = time.perf_counter()
        totals, outcome = [0] * len(proposed), SUCCESS
        for plugin in self._profile.placement_score:
            scores = self._placement_scores(plugin, attempt, proposed)
            if isinstance(scores, Status):
                outcome = scores
                break
            weight = self._profile.placement_score_weights[plugin.name]
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        self._calls.observe("PlacementScore", outcome, started)
        return totals if outcome.is_success else outcome

    def _placement_scores(
        self, plugin: PlacementScorePlugin, attempt: GroupAttempt, proposed: Sequence[ProposedPlacement]
    ) -> Sequence[int] | Status:
        scores: list[int] = []
        for each in proposed:
            answer = self._calls.call(
                plugin,
                "PlacementScore",
                plugin.score_placement,
                attempt.state,
                attempt.key,
                each,
                timed=True,
            )
            if isinstance(answer, Status):
                status = self._calls.checked(plugin, "PlacementScore", answer)
                if not status.is_success:
                    return status
            if not isinstance(answer, int) or isinstance(answer, bool):
                return invalid_answer(plugin, "PlacementScore", answer, "a whole number or an Error status")
            scores.append(answer)
        normalized = self._calls.call(
            plugin,
            "PlacementScore",
            plugin.normalize_placement_scores,
            attempt.state,
            attempt.key,
            tuple(scores),
        )
        if isinstance(normalized, Status):
            status = self._calls.checked(plugin, "PlacementScore", normalized)
            if not status.is_success:
                return status
            normalized = None
        final = scores if normalized is None else normalized
        if not isinstance(final, Sequence) or len(final) != len(scores):
            return invalid_answer(
                plugin,
                "PlacementScore",
                final,
                f"a sequence of {len(scores)} scores, an Error status or None",
            )
        for score in final:
            if not isinstance(score, int) or not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                return invalid_answer(
                    plugin, "PlacementScore", score, "a score from 0 to 100 after normalising"
                )
        return final
