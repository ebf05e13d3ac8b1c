"""Tries a group in several parts of the cluster, and chooses one (TopologyAwareWorkloadScheduling).

In: a trial, and the plugins that generate and score the parts. Out: the trial's result in the best part on
which the group fits; ties are broken at random.
"""

from __future__ import annotations

import random
from collections.abc import Generator

import numpy as np

from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import GroupAttempt
from kuberth.framework.extension_points import ProposedPlacement
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status
from kuberth.outcomes.rejection import PodGroupError
from kuberth.scheduling.groups.trial import GroupResult, GroupTrial


class PlacementSearch:
    """Chooses among the placements of one profile's plugins."""

    def __init__(self, cluster: ClusterTable, *, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng

    def run(
        self, trial: GroupTrial, runner: Runner, key: str, *, preempts: bool
    ) -> Generator[None, None, GroupResult]:
        """Try the group in every placement; yields before each step of every trial."""
        whole = GroupAttempt(key, preempts=preempts)
        candidates = runner.placing.run_placement_generate(whole, Nodes(self._cluster, self._cluster.order()))
        if isinstance(candidates, Status):
            return GroupResult(candidates)
        first: GroupResult | None = None
        fitting: list[GroupResult] = []
        proposed: list[ProposedPlacement] = []
        for candidate in candidates:
            rows = candidate.nodes.rows()
            covers_all = len(rows) == self._cluster.node_count
            nodes = None if covers_all else Nodes(self._cluster, np.asarray(rows, np.int64))
            result = yield from trial.run(GroupAttempt(key, nodes=nodes, preempts=preempts))
            if not result.status.is_success and not result.status.is_rejected:
                return result
            first = first or result
            if result.status.is_success or result.waits_for_preemption:
                fitting.append(result)
                pods = [
                    member.state.placed(member.queued.info, member.choice.node_name)
                    for member in result.members
                    if member.choice is not None
                ]
                proposed.append(ProposedPlacement(candidate, pods))
        if not fitting:
            assert first is not None
            said = PodGroupError.of(first.status) or first.status.message
            return first.rejected(
                f"0/{len(candidates)} placements are available, first placement status: {said}"
            )
        if len(fitting) == 1:
            return fitting[0]
        scores = runner.placing.run_placement_score(whole, proposed)
        if isinstance(scores, Status):
            return GroupResult(scores)
        best = [index for index, score in enumerate(scores) if score == max(scores)]
        return fitting[self._rng.choice(best)]
