"""The scheduling cycle of a pod group: gather its pods, try them together, apply the result.

In: a popped pod of a group. Out: every gathered pod is being bound, or is back in the queue with its reason;
the PodGroup's condition shows the result. If the queue only returns pods in its own order, pods are popped
until the group's pods have come; other pods popped on the way are held and tried next.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kuberth.api.scheduling import PodGroup
from kuberth.cluster.pod_groups import pod_group_not_found
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.errors import QueueError
from kuberth.framework.cycle_state import GroupAttempt
from kuberth.framework.nominator import Nominator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status
from kuberth.holding import Hold
from kuberth.informers.store import Store
from kuberth.observe.metrics import PodGroupMetrics
from kuberth.outcomes.group_status import PodGroupStatusWriter
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import CLEAR_NOMINATION, Rejection
from kuberth.queue.interface import SchedulingQueue
from kuberth.queue.slices import finished
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.groups.trial import (
    GroupResult,
    GroupTrial,
    MemberResult,
    PlacementSearch,
    group_rejected,
)

logger = logging.getLogger(__name__)

NO_GROUP_PREEMPTION: Final = (
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
CONSTRAINED: Final = "workload aware preemption is not supported for pod groups with scheduling constraints"

CARRIED_OUT_IN_A_TURN: Final = 10
"""How many pods of a group are bound or returned to the queue per turn of the event loop.

After each turn, one other pod is tried, even if the API server is slow to accept bindings.
"""
TRIED_IN_A_TURN: Final = 50
"""How many pods of a group are tried, removed or assumed per turn: about six milliseconds."""

Finish = Callable[[Placement | Rejection], None]
"""Binds a pod that has a node, or returns a pod without one to the queue."""


@dataclass(eq=False, kw_only=True)
class GroupCycle:
    """Cycles of pod groups over one queue and one cluster table, serialized with those of single pods."""

    queue: SchedulingQueue
    cluster: ClusterTable
    nominator: Nominator
    runners: Mapping[str, Runner]
    cycle: SchedulingCycle
    groups: Store[PodGroup]
    writer: PodGroupStatusWriter
    metrics: PodGroupMetrics
    wait: Callable[[Placement], None]
    """Shows plugins a pod that Permit holds."""
    hold: Hold
    """Delays changes while a what-if is open."""
    by_topology: bool = False
    """The gate TopologyAwareWorkloadScheduling."""
    preempts: bool = False
    """The gate WorkloadAwarePreemption."""
    rng: random.Random = field(default_factory=random.Random)
    _unfinished: Iterator[None] | None = field(default=None, init=False)
    _gathering: Gathering = field(init=False)
    _placements: PlacementSearch | None = field(init=False)

    def __post_init__(self) -> None:
        self._gathering = Gathering(self.queue)
        self._placements = PlacementSearch(self.cluster, rng=self.rng) if self.by_topology else None

    def next_held(self) -> QueuedPod | None:
        """The next pod that was popped while a group was gathered, and does not belong to the group."""
        return self._gathering.next_held()

    def takes(self, queued: QueuedPod, runner: Runner) -> bool:
        """Whether the pod is tried with its group.

        A pod that an extender is interested in is not, because a cycle of several pods cannot wait for
        extenders: it is scheduled alone and waits on Permit.
        """
        return bool(queued.info.group) and not _waits_for_extenders(queued.info, runner)

    def run(
        self, popped: QueuedPod, finish: Finish, needs_no_scheduling: Callable[[QueuedPod], bool]
    ) -> None:
        """Start trying the group of a popped pod, as far as one turn of the event loop allows.

        `needs_no_scheduling` returns which pods need no scheduling any more. `resume` does the rest.
        """
        while self.resume():  # one group at a time
            pass
        self._unfinished = self._run(popped, finish, needs_no_scheduling)
        self.resume()

    @property
    def is_deciding(self) -> bool:
        """Whether a group is still being tried; no other pod may be tried until `resume` has finished it."""
        return self.hold.is_held

    def resume(self) -> bool:
        """Continue with the current group. False if it is finished."""
        if self._unfinished is None:
            return False
        left = 1.0
        for _step in self._unfinished:
            left -= 1 / (TRIED_IN_A_TURN if self.is_deciding else CARRIED_OUT_IN_A_TURN)
            if left < 0:
                return True
        self._unfinished = None
        return True

    def _run(
        self, popped: QueuedPod, finish: Finish, needs_no_scheduling: Callable[[QueuedPod], bool]
    ) -> Iterator[None]:
        """Yields before every step."""
        started, key = time.perf_counter(), popped.info.group
        members = self.cluster.pod_groups.get(key)
        if members is None:
            why = f"error while retrieving pod group state: pod group state not found for pod group {key}"
            self._reject_all([popped], Status.error(why), finish, nomination=None)
            return
        others = [info for uid, info in members.unscheduled.items() if uid != popped.uid]
        pods = self._gathering.gather(popped, [info for info in others if self._may_join(info)])
        attempted = {queued.uid for queued in pods}
        members.begin_attempt(attempted)
        left = {queued.uid: queued for queued in pods}

        def finish_one(outcome: Placement | Rejection) -> None:
            left.pop(outcome.queued.uid, None)
            finish(outcome)

        try:
            for queued in pods:
                if needs_no_scheduling(queued):
                    self.queue.done(left.pop(queued.uid).uid)
            yield from self._schedule_group(key, list(left.values()), started, finish_one)
        except Exception:  # an internal error must not lose the pod or stop the loop
            logger.exception("the scheduling cycle failed with pod group %s; its pods are queued again", key)
            for queued in left.values():
                self._requeue(queued)
        finally:
            members.end_attempt(attempted)

    def _requeue(self, queued: QueuedPod) -> None:
        queued.unschedulable_plugins, queued.pending_plugins = set(), set()
        with contextlib.suppress(QueueError):  # it waits there already
            self.queue.requeue(queued)

    def _may_join(self, info: PodInfo) -> bool:
        runner = self.runners.get(info.pod.spec.scheduler_name)
        return runner is None or not _waits_for_extenders(info, runner)

    def _schedule_group(
        self, key: str, pods: Sequence[QueuedPod], started: float, finish: Finish
    ) -> Iterator[None]:
        if not pods:
            return
        name = pods[0].pod.spec.scheduler_name
        other = next((q.pod.spec.scheduler_name for q in pods if q.pod.spec.scheduler_name != name), None)
        if other is not None:
            why = (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{other}" and "{name}"'
            )
            self._reject_all(pods, Status.error(why), finish)
            return
        runner = self.runners[name]
        outcomes: list[Placement | Rejection] = []
        self.hold.begin()
        try:
            result = yield from self._decide(key, pods, runner, started)
            for index, queued in enumerate(pods):
                yield
                member = result.members[index] if index < len(result.members) else None
                outcomes.append(self._accept(queued, member, runner, result))
        finally:
            self.hold.end()
        # Bind pods with a node only when all have been permitted: then most need not wait for each other.
        outcomes.sort(key=lambda outcome: isinstance(outcome, Placement))
        for outcome in outcomes:
            yield
            finish(outcome)
        self._record_outcome(key, runner, result, started)

    def _reject_all(
        self,
        pods: Sequence[QueuedPod],
        status: Status,
        finish: Finish,
        nomination: str | None = CLEAR_NOMINATION,
    ) -> None:
        for queued in pods:
            runner = self.runners[queued.pod.spec.scheduler_name]
            finish(Rejection(queued, status, runner, time.perf_counter(), nomination))

    # Deciding

    def _decide(
        self, key: str, pods: Sequence[QueuedPod], runner: Runner, started: float
    ) -> Generator[None, None, GroupResult]:
        """Try the group; if it does not fit, try to preempt for all of it."""
        try:
            with self.cluster.logged_what_if() as what_if:
                result = yield from self._try(key, pods, runner, what_if)
            self.metrics.algorithm_duration.observe((), time.perf_counter() - started)
            if self.preempts and result.status.is_rejected:
                with self.cluster.logged_what_if() as what_if:
                    result = self._preempt(key, pods, runner, what_if, result)
        except Exception as exc:  # an internal error must not lose the pod or stop the loop
            logger.exception("the scheduling cycle failed with pod group %s; its pods are queued again", key)
            result = GroupResult(Status.error(exc))
        return result

    def _try(
        self,
        key: str,
        pods: Sequence[QueuedPod],
        runner: Runner,
        what_if: LoggedWhatIf,
        *,
        preempts: bool = True,
    ) -> Generator[None, None, GroupResult]:
        trial = GroupTrial(pods, runner, what_if, cycle=self.cycle, nominator=self.nominator)
        if self._placements is not None:
            return self._placements.run(trial, runner, key, preempts=preempts)
        return trial.run(GroupAttempt(key, preempts=preempts))

    def _preempt(
        self,
        key: str,
        pods: Sequence[QueuedPod],
        runner: Runner,
        what_if: LoggedWhatIf,
        result: GroupResult,
    ) -> GroupResult:
        """The result, including a preemption for the group as a whole."""
        group = self.groups.get_by_key(key)
        if group is None:
            return GroupResult(
                Status.error(f"failed to get pod group object: {pod_group_not_found(key)}"), result.members
            )
        constraints = group.spec.scheduling_constraints
        plugin = runner.placing.group_post_filter
        if plugin is None:
            status = Status.unschedulable(NO_GROUP_PREEMPTION)
        elif constraints is not None and constraints.topology:
            status = Status.unschedulable(CONSTRAINED)
        else:

            def try_again() -> Status:
                return finished(self._try(key, pods, runner, what_if, preempts=False)).status

            infos = [queued.info for queued in pods]
            status = runner.placing.run_group_post_filter(plugin, key, infos, what_if, try_again)
        if status.is_success:
            return GroupResult(result.status, result.members, waits_for_preemption=True)
        if not status.is_rejected:
            return GroupResult(status, result.members)
        combined = Status(
            result.status.code, *result.status.reasons, *status.reasons, cause=result.status.cause
        )
        return GroupResult(combined, result.members, result.waits_for_preemption)

    # Applying the result

    def _accept(
        self, queued: QueuedPod, member: MemberResult | None, runner: Runner, result: GroupResult
    ) -> Placement | Rejection:
        """The pod's outcome. A pod with a node is assumed there from now on."""
        seconds = 0.0 if member is None else member.seconds
        outcome = self._outcome(queued, member, runner, result, time.perf_counter() - seconds)
        if isinstance(outcome, Placement):
            self.wait(outcome)
        return outcome

    def _outcome(
        self,
        queued: QueuedPod,
        member: MemberResult | None,
        runner: Runner,
        result: GroupResult,
        started: float,
    ) -> Placement | Rejection:
        group = result.status
        if not group.is_success and not group.is_rejected:
            own = None if member is None or member.status.is_rejected else member.status
            failed = group if own is None or own.is_success else own
            return Rejection(queued, failed, runner, started)
        if member is None:
            return Rejection(queued, group, runner, started, None)
        if member.choice is None:
            return Rejection(queued, member.status, runner, started, member.nomination)
        if group.is_success and member.status.is_success:
            return self._take(member, runner, started)
        if not result.waits_for_preemption:
            # Whatever the pod would have waited for, it is rejected because its group is.
            return Rejection(queued, group_rejected(*member.permit.reasons), runner, started)
        if member.status.is_success:
            return Rejection(queued, group, runner, started, member.choice.node_name)
        return Rejection(queued, member.status, runner, started, member.nomination)

    def _take(self, member: MemberResult, runner: Runner, started: float) -> Placement | Rejection:
        """Assume the pod on the same node again, this time permanently."""
        queued, state = member.queued, member.state
        assert member.choice is not None
        state.group = None
        try:
            return self.cycle.take(state, queued, runner, member.choice, started)
        except Exception as exc:
            logger.exception("the scheduling cycle failed with pod %s; it is queued again", queued.key)
            self.cluster.forget_pod(queued.uid)
            return Rejection(queued, Status.error(exc), runner, started)

    def _record_outcome(self, key: str, runner: Runner, result: GroupResult, started: float) -> None:
        """The PodGroup's condition, and the metrics."""
        status = result.status
        if status.is_success:
            label, reason = "scheduled", "Scheduled"
        elif status.is_rejected:
            label = "waiting_on_preemption" if result.waits_for_preemption else "unschedulable"
            reason = "Unschedulable"
        else:
            label, reason = "error", "SchedulerError"
            logger.error("scheduling pod group %s failed, it will be retried: %s", key, status.message)
        labels = (label, runner.profile.scheduler_name)
        self.metrics.schedule_attempts.inc(labels)
        self.metrics.attempt_duration.observe(labels, time.perf_counter() - started)
        self.writer.write(key, is_scheduled=status.is_success, reason=reason, message=status.message)


def _waits_for_extenders(info: PodInfo, runner: Runner) -> bool:
    return bool(runner.extenders) and runner.extenders.decide_about(info.pod)


MAX_HELD: Final = 10_000
"""How many pods are popped at most while looking for a group's pods."""


class Gathering:
    """Takes the pods of a group from one queue."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._held: deque[QueuedPod] = deque()

    def next_held(self) -> QueuedPod | None:
        """The next held pod, which goes before those in the queue."""
        return self._held.popleft() if self._held else None

    def gather(self, popped: QueuedPod, others: Sequence[PodInfo]) -> list[QueuedPod]:
        """The pods of the group that can be tried now: by priority, then by the time they became ready."""
        if self._queue.gives_out_of_order:
            taken = (self._queue.take_nowait(info.pod) for info in others)
            found = [popped, *(queued for queued in taken if queued is not None)]
        else:
            found = [popped, *self._pop_until({info.uid: info for info in others})]
        found.sort(key=_order)
        return found

    def _pop_until(self, wanted: dict[str, PodInfo]) -> Iterable[QueuedPod]:
        """Pop pods until all wanted ones have come, or the queue is empty."""
        found = [queued for queued in self._held if queued.uid in wanted]
        self._held = deque(queued for queued in self._held if queued.uid not in wanted)
        for queued in found:
            del wanted[queued.uid]
        if wanted:
            self._queue.activate({info.key: info.pod for info in wanted.values()})
        while wanted and len(self._held) < MAX_HELD:
            popped = self._queue.pop_nowait()
            if popped is None:
                break
            if wanted.pop(popped.uid, None) is None:
                self._held.append(popped)
            else:
                found.append(popped)
        return found


def _order(queued: QueuedPod) -> tuple[int, int]:
    return -queued.info.priority, queued.first_attempt_ns or 0
