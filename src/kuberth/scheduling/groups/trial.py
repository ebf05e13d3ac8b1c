"""Tries the pods of a group together: would they fit?

In: the pods in order, on the cluster table in a what-if. Out: a node or a rejection for each pod, and whether
the group can be bound. Every pod that finds a node counts there for the following ones; at the end all are
removed again. With TopologyAwareWorkloadScheduling, the group is tried in several parts of the cluster, and
the result is that in the best part.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, TypeVar

import numpy as np

from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.framework.cycle_state import CycleState, GroupAttempt
from kuberth.framework.extension_points import ProposedPlacement
from kuberth.framework.nominator import Nominator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.outcomes.placement import Choice
from kuberth.outcomes.rejection import (
    CLEAR_NOMINATION,
    PodGroupError,
    Rejection,
    rejected_on,
)
from kuberth.scheduling.cycle import SchedulingCycle

T = TypeVar("T")

WAITING_FOR_PREEMPTION: Final = "pod group is waiting for preemption to complete"


@dataclass(frozen=True, slots=True)
class MemberResult:
    """The outcome of one pod."""

    queued: QueuedPod
    state: CycleState
    status: Status
    """Success if the pod has a node; otherwise why not, even if a preemption makes room for it."""
    choice: Choice | None = None
    """The pod's node or its nominated node; None if there is neither."""
    nomination: str | None = None
    """As a `Rejection` has it."""
    permit: Status = SUCCESS
    """The answer of Permit, for pods with a `choice`."""
    seconds: float = 0.0
    """The duration of the pod's attempt."""

    @property
    def needs_preemption(self) -> bool:
        """Whether the pod only fits once victims have terminated."""
        return self.choice is not None and not self.status.is_success


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The outcome of the group."""

    status: Status
    """Success: pods with a node can be bound. Rejected: none can be bound now. Error: unknown."""
    members: Sequence[MemberResult] = ()
    """Outcomes in the order of attempts; fewer than the group's pods if the trial ended early."""
    waits_for_preemption: bool = False
    """Whether the group fits once victims have terminated; it is rejected then."""

    def rejected(self, *reasons: str) -> GroupResult:
        """The same group, rejected for these reasons."""
        return replace(self, status=Status(Code.UNSCHEDULABLE, *reasons), waits_for_preemption=False)


def group_rejected(*reasons: str) -> Status:
    """The group cannot be scheduled, so none of its pods can."""
    error = PodGroupError()
    return Status(Code.UNSCHEDULABLE, str(error), *reasons, cause=error)


@dataclass(slots=True, eq=False)
class GroupTrial:
    """Tries one group's pods with one profile."""

    pods: Sequence[QueuedPod]
    runner: Runner
    what_if: LoggedWhatIf
    _: KW_ONLY
    cycle: SchedulingCycle
    nominator: Nominator

    def run(self, attempt: GroupAttempt) -> Generator[None, None, GroupResult]:
        """Try all pods, then remove them again; yields before each of these steps.

        The last counted pod may complete a gang, and Permit knows which pod that is, so Permit's last answer
        counts.
        """
        result, members = group_rejected(), list[MemberResult]()
        placed: list[tuple[MemberResult, PodInfo]] = []
        waits = needs_preemption = False
        try:
            for queued in self.pods:
                yield
                member, info = self._try(queued, attempt)
                members.append(member)
                if info is None:
                    if member.status.is_rejected:
                        continue  # the others may be enough
                    why = f"failed to schedule other pod from a pod group: {member.status.message}"
                    result, waits = Status(Code.ERROR, why, cause=member.status.cause), False
                    break
                placed.append((member, info))
                needs_preemption = needs_preemption or member.needs_preemption
                if member.permit.is_success:
                    waits = needs_preemption
                    result = group_rejected(WAITING_FOR_PREEMPTION) if waits else SUCCESS
            while placed:
                yield
                self._remove_last(placed)
        finally:
            while placed:
                self._remove_last(placed)
        return GroupResult(result, members, waits)

    def _try(self, queued: QueuedPod, attempt: GroupAttempt) -> tuple[MemberResult, PodInfo | None]:
        """Try one pod; if it has a node, it counts there."""
        started = time.perf_counter()
        runner, state = self.runner, self.cycle.begin(queued)
        state.group = attempt
        outcome = self.cycle.decide(state, queued, runner, started)
        status, nomination = SUCCESS, None
        if isinstance(outcome, Rejection):
            status, nomination = outcome.status, outcome.nomination
            if not nomination:
                member = MemberResult(queued, state, status, None, nomination, seconds=_since(started))
                return member, None
            outcome = Choice(nomination, 0, 0)
        info = state.placed(queued.info, outcome.node_name)
        refusal, permit = self._assume(state, info)
        if refusal is not None:
            member = MemberResult(queued, state, refusal, None, CLEAR_NOMINATION, seconds=_since(started))
            return member, None
        return MemberResult(queued, state, status, outcome, nomination, permit, _since(started)), info

    def _assume(self, state: CycleState, info: PodInfo) -> tuple[Status | None, Status]:
        """Why the pod cannot use the node after all, or None; and Permit's answer."""
        runner, pod, node_name = self.runner, info.pod, info.node_name
        if not self.what_if.assume_pod(info):
            return Status.error(f"node {node_name} is gone"), SUCCESS
        self.nominator.withdraw(pod)
        status, permit = runner.reserving.run_reserve(state, pod, node_name), SUCCESS
        if status.is_success:
            status = permit = runner.reserving.run_permit(state, pod, node_name)[0]
        if status.is_success or status.is_wait:
            return None, permit
        self._remove(state, info)
        return rejected_on(node_name, status), permit

    def _remove_last(self, placed: list[tuple[MemberResult, PodInfo]]) -> None:
        member, info = placed.pop()
        self._remove(member.state, info)

    def _remove(self, state: CycleState, info: PodInfo) -> None:
        self.runner.reserving.run_unreserve(state, info.pod, info.node_name)
        self.what_if.forget_pod(info)
        # A nomination that is stored in the API stays valid.
        if state.pod_info is not None:
            self.nominator.adopt(state.pod_info)


def _since(started: float) -> float:
    return time.perf_counter() - started


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
