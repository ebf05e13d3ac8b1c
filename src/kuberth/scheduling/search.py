"""The search for nodes that take a pod: PreFilter, the promised node, then Filter over all the others.

In: a pod and the cluster table. Out: the nodes worth scoring, and a diagnosis of all that are not. The
scheduling cycle and whoever asks without scheduling (evaluation) search in this one way.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.runner import Runner
from kuberth.framework.status import SUCCESS, Status
from kuberth.framework.verdict import Mask, Positions
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.scheduling.sampling import nodes_to_find


class Sampling(Protocol):
    """Which of the nodes that pass are scored."""

    def choose(self, order: Positions, passing: Mask, enough: int, /) -> tuple[Positions, int]:
        """Entries of `order` that pass, and how many entries were looked at to find `enough` of them."""
        ...


class NodeSearch:
    """Finds nodes over one cluster table."""

    def __init__(
        self,
        cluster: ClusterTable,
        *,
        metrics: SchedulerMetrics,
        sampling: Sampling,
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        """The percentage counts where a profile has none of its own."""
        self._cluster = cluster
        self._metrics = metrics
        self._sampling = sampling
        self._percentage = percentage_of_nodes_to_score

    def run(
        self, state: CycleState, pod: Pod, runner: Runner, diagnosis: Diagnosis
    ) -> tuple[Nodes, int] | Status:
        """The nodes to score, and how many were looked at; a Status aborts the cycle."""
        nodes = self._cluster.all_nodes()
        outcome = runner.run_pre_filter(state, pod, nodes)
        diagnosis.note_plugins(outcome.narrowed_by)
        if not outcome.status.is_success:
            if not outcome.status.is_rejected:
                return outcome.status
            diagnosis.reject_all(outcome.status)
            return self._none(), 0
        if outcome.node_names is not None:
            diagnosis.narrow(outcome.node_names, by=outcome.narrowed_by)
        if pod.status.nominated_node_name:
            promised = self._promised_node(state, pod, runner)
            if promised is not None:
                return promised, 1
        if outcome.node_names is not None:
            nodes = self._cluster.nodes_named(outcome.node_names)
        passing = self._filter(state, pod, runner, nodes, diagnosis)
        if isinstance(passing, Status):
            return passing
        return self._sample(runner, nodes, passing)

    def _promised_node(self, state: CycleState, pod: Pod, runner: Runner) -> Nodes | None:
        """The node the pod is nominated for, if it takes the pod; otherwise all nodes are searched."""
        node = self._cluster.node_named(pod.status.nominated_node_name)
        if node is None:
            return None
        passing = runner.run_filter(state, pod, node.alone, Diagnosis())
        if isinstance(passing, Status) or not passing.any():
            return None
        return node.alone

    def _filter(
        self, state: CycleState, pod: Pod, runner: Runner, nodes: Nodes, diagnosis: Diagnosis
    ) -> Mask | Status:
        started = time.perf_counter()
        passing = runner.run_filter(state, pod, nodes, diagnosis)
        status = passing if isinstance(passing, Status) else SUCCESS
        self._metrics.extension_point_duration.observe(
            ("Filter", status.code.label, runner.profile.scheduler_name), time.perf_counter() - started
        )
        return passing

    def _sample(self, runner: Runner, nodes: Nodes, passing: Mask) -> tuple[Nodes, int]:
        whole_table = len(nodes) == self._cluster.slots
        order = self._cluster.order() if whole_table else np.arange(len(nodes), dtype=np.int64)
        if not len(order):
            return self._none(), 0
        percentage = runner.profile.percentage_of_nodes_to_score
        enough = nodes_to_find(len(order), self._percentage if percentage is None else percentage)
        if not runner.profile.score:
            enough = 1  # any one will do
        positions, looked_at = self._sampling.choose(order, passing, enough)
        return nodes.at(positions), looked_at

    def _none(self) -> Nodes:
        return Nodes(self._cluster, np.zeros(0, np.int64))
