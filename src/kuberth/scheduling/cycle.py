"""One scheduling cycle: PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Permit.

In: a pod popped from the queue. Out: a `Placement` (the pod is assumed on its node) or a `Rejection`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis, FitError
from kuberth.framework.handle import Nominator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Code, Status
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.scheduling.feasibility import Sampler, nodes_to_find

NO_NODES: Final = "no nodes available to schedule pods"
PLUGIN_METRICS_SAMPLE: Final = 0.1
"""Share of cycles in which single plugins are timed."""
CLEAR_NOMINATION: Final = ""
"""A rejection that takes back the pod's nomination; None leaves it as it is."""


class Choice(NamedTuple):
    """The node for the pod, and how wide the search was."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int


@dataclass(slots=True)
class Placement:
    """The pod has its node: it is counted there, reserved and permitted (or waiting for that)."""

    queued: QueuedPod
    info: PodInfo
    """The pod as it will be once bound."""
    choice: Choice
    state: CycleState
    runner: Runner
    started: float
    permit_timeouts: Mapping[str, float]
    """Plugins that asked to wait, with their limits in seconds; empty: bind at once."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def node_name(self) -> str:
        return self.choice.node_name


@dataclass(slots=True)
class Rejection:
    """The pod has no node."""

    queued: QueuedPod
    status: Status
    runner: Runner
    started: float
    nomination: str | None = CLEAR_NOMINATION
    """The node PostFilter nominated, "" to clear, None to leave as it is."""


class SchedulingCycle:
    """Decides over the cluster table. Everything it changes it changes for a placement only."""

    def __init__(
        self,
        cluster: ClusterTable,
        *,
        nominator: Nominator,
        metrics: SchedulerMetrics,
        percentage_of_nodes_to_score: int | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._nominator = nominator
        self._metrics = metrics
        self._percentage = percentage_of_nodes_to_score
        self._rng = random.Random() if rng is None else rng
        self._sampler = Sampler()

    def run(self, queued: QueuedPod, runner: Runner) -> Placement | Rejection:
        """Find a node for the pod and take it."""
        started = time.perf_counter()
        state = CycleState(queued.info, record_plugin_metrics=self._rng.random() < PLUGIN_METRICS_SAMPLE)
        choice = self._decide(state, queued, runner, started)
        self._metrics.algorithm_duration.observe((), time.perf_counter() - started)
        if isinstance(choice, Rejection):
            return choice
        return self._take(state, queued, runner, choice, started)

    # Deciding

    def _decide(
        self, state: CycleState, queued: QueuedPod, runner: Runner, started: float
    ) -> Choice | Rejection:
        if self._cluster.node_count == 0:
            return Rejection(queued, Status.unresolvable(NO_NODES), runner, started)
        diagnosis = Diagnosis()
        feasible = self._feasible(state, queued.pod, runner, diagnosis)
        if isinstance(feasible, Status):
            return Rejection(queued, feasible, runner, started)
        nodes, looked_at = feasible
        if len(nodes) == 0:
            return self._make_room(state, queued, runner, diagnosis, started)
        if len(nodes) == 1:
            return Choice(nodes.name(0), looked_at, 1)
        best = self._best(state, queued.pod, runner, nodes)
        if isinstance(best, Status):
            return Rejection(queued, best, runner, started)
        return Choice(nodes.name(best), looked_at, len(nodes))

    def _feasible(
        self, state: CycleState, pod: Pod, runner: Runner, diagnosis: Diagnosis
    ) -> tuple[Nodes, int] | Status:
        """The nodes to score, and how many were looked at; a Status aborts the cycle."""
        everything = self._cluster.all_nodes()
        outcome = runner.run_pre_filter(state, pod, everything)
        diagnosis.note_plugins(outcome.narrowed_by)
        if not outcome.status.is_success:
            if not outcome.status.is_rejected:
                return outcome.status
            diagnosis.absent_status = outcome.status
            diagnosis.pre_filter_message = outcome.status.message
            diagnosis.note(outcome.status)
            return self._none(), 0
        if pod.status.nominated_node_name:
            promised = self._promised_node(state, pod, runner)
            if promised is not None:
                return promised, 1
        if outcome.node_names is not None:
            names = " ".join(sorted(outcome.narrowed_by))
            diagnosis.absent_status = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{names}]")
            everything = self._cluster.nodes_named(outcome.node_names)
        return self._search(state, pod, runner, everything, diagnosis)

    def _promised_node(self, state: CycleState, pod: Pod, runner: Runner) -> Nodes | None:
        """The node the pod is nominated for, if it takes the pod; otherwise all nodes are searched."""
        node = self._cluster.node_named(pod.status.nominated_node_name)
        if node is None:
            return None
        passing = runner.run_filter(state, pod, node.alone, Diagnosis())
        if isinstance(passing, Status) or not passing.any():
            return None
        return node.alone

    def _search(
        self, state: CycleState, pod: Pod, runner: Runner, nodes: Nodes, diagnosis: Diagnosis
    ) -> tuple[Nodes, int] | Status:
        started = time.perf_counter()
        passing = runner.run_filter(state, pod, nodes, diagnosis)
        failed = isinstance(passing, Status)
        self._metrics.extension_point_duration.observe(
            ("Filter", (Code.ERROR if failed else Code.SUCCESS).label, runner.profile.scheduler_name),
            time.perf_counter() - started,
        )
        if isinstance(passing, Status):
            return passing
        whole_table = len(nodes) == self._cluster.slots
        order = self._cluster.order() if whole_table else np.arange(len(nodes), dtype=np.int64)
        if not len(order):
            return self._none(), 0
        percentage = runner.profile.percentage_of_nodes_to_score
        enough = nodes_to_find(len(order), self._percentage if percentage is None else percentage)
        if not runner.profile.score:
            enough = 1
        positions, looked_at = self._sampler.choose(order, passing, enough)
        return nodes.at(positions), looked_at

    def _none(self) -> Nodes:
        return Nodes(self._cluster, np.zeros(0, np.int64))

    def _best(self, state: CycleState, pod: Pod, runner: Runner, nodes: Nodes) -> int | Status:
        """The position of a node with the highest total; among equals anyone, by lot."""
        if not runner.profile.score:
            return 0
        status = runner.run_pre_score(state, pod, nodes)
        if not status.is_success:
            return status
        scores = runner.run_score(state, pod, nodes)
        if isinstance(scores, Status):
            return scores
        best = np.flatnonzero(scores.totals == scores.totals.max())
        return int(best[0] if len(best) == 1 else best[self._rng.randrange(len(best))])

    def _make_room(
        self, state: CycleState, queued: QueuedPod, runner: Runner, diagnosis: Diagnosis, started: float
    ) -> Rejection:
        """No node passed: let PostFilter plugins try, and tell all about it."""
        nomination: str | None = CLEAR_NOMINATION
        if runner.profile.post_filter:
            result, status = runner.run_post_filter(state, queued.pod, diagnosis)
            diagnosis.post_filter_message = status.message
            nomination = None if result is None else result.nominated_node
        error = FitError(diagnosis, self._cluster.node_count)
        return Rejection(
            queued, Status(Code.UNSCHEDULABLE, str(error), cause=error), runner, started, nomination
        )

    # Taking the node

    def _take(
        self, state: CycleState, queued: QueuedPod, runner: Runner, choice: Choice, started: float
    ) -> Placement | Rejection:
        info = queued.info.placed_on(choice.node_name)
        self._cluster.assume_pod(info)
        self._nominator.withdraw(info.pod)
        status = runner.run_reserve(state, info.pod, choice.node_name)
        timeouts: Mapping[str, float] = {}
        if status.is_success:
            status, timeouts = runner.run_permit(state, info.pod, choice.node_name)
        if status.is_success or status.is_wait:
            return Placement(queued, info, choice, state, runner, started, timeouts)
        runner.run_unreserve(state, info.pod, choice.node_name)
        self._cluster.forget_pod(info.uid)
        return Rejection(queued, rejected_on(choice.node_name, status), runner, started)


def rejected_on(node_name: str, status: Status) -> Status:
    """A rejection after the node was chosen, told as a rejection by that one node; errors stay errors."""
    if not status.is_rejected:
        return status
    diagnosis = Diagnosis()
    diagnosis.set(node_name, status)
    error = FitError(diagnosis, 1)
    return Status(status.code, str(error), cause=error)
