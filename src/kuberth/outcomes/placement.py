"""A placed pod, passed from the scheduling cycle to the binding cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status


class BestScores(NamedTuple):
    """Weighted scores of the best nodes, the chosen one first."""

    nodes: tuple[str, ...]
    plugins: Mapping[str, tuple[int, ...]]
    """Scores by plugin, in the order of `nodes`."""
    totals: tuple[int, ...]


class Choice(NamedTuple):
    """The node for the pod, and the size of the search."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int
    scores: BestScores | None = None
    """Scores of the best nodes; None if they are not observed, or only one node was feasible."""


@dataclass(slots=True)
class Placement:
    """The pod has a node: it is assumed, reserved and permitted (or waits on Permit)."""

    queued: QueuedPod
    info: PodInfo
    """The pod as it will be once bound."""
    choice: Choice
    state: CycleState
    runner: Runner
    started: float
    permit_timeouts: Mapping[str, float]
    """Plugins that asked to wait, with their limits in seconds; empty: bind at once."""
    pre_flight: Status | None = None
    """The PreBind plugins' pre-flight answers, once they were called."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def node_name(self) -> str:
        return self.choice.node_name
