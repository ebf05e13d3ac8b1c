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
    """By plugin, in the order of `nodes`."""
    totals: tuple[int, ...]


class Choice(NamedTuple):
    """The node for the pod, and how wide the search was."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int
    scores: BestScores | None = None
    """None: they are not observed, or there was only one feasible node."""


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
    pre_flight: Status | None = None
    """What PreBind plugins said they have to do, once they were asked."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def node_name(self) -> str:
        return self.choice.node_name
