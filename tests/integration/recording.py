"""A plugin that serves every extension point, notes each call, and can be made to misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.framework import (
    Action,
    BindPlugin,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Hint,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    Resource,
    ScorePlugin,
)
from kuberth.framework.status import SKIP, Status

Behaviour = Callable[[Pod], Any]


class Recording(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    EnqueueExtensions,
):
    """`calls` lists "Point pod"; `behave["Point"]` answers instead of the default."""

    name = "Recording"

    def __init__(self, _args: object = None, _handle: object = None) -> None:
        self.calls: list[str] = []
        self.behave: dict[str, Behaviour] = {}

    def _answer(self, point: str, pod: Pod, default: Any = None) -> Any:
        self.calls.append(f"{point} {pod.metadata.name}")
        behaviour = self.behave.get(point)
        return default if behaviour is None else behaviour(pod)

    def pre_enqueue(self, pod: Pod) -> Any:
        return self._answer("PreEnqueue", pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self._answer("PreFilter", pod)

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Any:
        return self._answer("Filter", pod)

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Any:
        return self._answer("PostFilter", pod, (None, Status.unschedulable("no room can be made")))

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self._answer("PreScore", pod)

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> Any:
        return self._answer("Score", pod, 0)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Any) -> Any:
        return self._answer("NormalizeScore", pod)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("Reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._answer("Unreserve", pod)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("Permit", pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("PreBindPreFlight", pod)

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("PreBind", pod)

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("Bind", pod, SKIP)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._answer("PostBind", pod)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent(Resource.NODE, Action.ADD), self._after_node_add)]

    def _after_node_add(self, pod: Pod, old: object, new: object) -> Hint:
        return cast(Hint, self._answer("Hint", pod, Hint.QUEUE))
