"""PodGroupPodsCount: prefers the part of the cluster that takes most pods of a group."""

from __future__ import annotations

from collections.abc import Sequence

from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import PlacementScorePlugin, ProposedPlacement
from kuberth.framework.handle import Handle
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.framework.status import Status


class PodGroupPodsCount(PlacementScorePlugin):
    name = "PodGroupPodsCount"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._members = handle.cluster.pod_groups

    def score_placement(self, state: CycleState, group: str, proposed: ProposedPlacement) -> int | Status:
        members = self._members.get(group)
        if members is None:
            return Status.error(f"pod group state not found for pod group {group}")
        return members.scheduled + len(proposed.pods)

    def normalize_placement_scores(
        self, state: CycleState, group: str, scores: Sequence[int]
    ) -> Sequence[int] | Status | None:
        most = max(scores, default=0)
        if not most:
            return Status.error("no pods from pod group are assigned to any of the candidate placements")
        return [score * MAX_NODE_SCORE // most for score in scores]
