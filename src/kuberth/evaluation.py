"""The framework as a library: judge a pod over a set of objects, with no scheduler running.

In: Kubernetes objects and a configuration. Out: which nodes pass, why the others do not, how they score,
whom preemption would evict, and what queueing hints say. A cluster autoscaler or a planner asks this way:

    evaluator = Evaluator([*nodes, *pods], config=config)
    answer = evaluator.evaluate(pod)
    answer.feasible            # names of the nodes that pass
    answer.rejections["n1"]    # the Status that rules out n1: plugin, code, reasons
    answer.totals              # node -> weighted score
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kuberth.api.core import Namespace, Node, Pod
from kuberth.assembly import assemble, effective_gates, full_registry
from kuberth.client.memory import MemoryApi
from kuberth.clock import SystemClock
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.errors import KuberthError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.events import ClusterEvent, Hint, concerns
from kuberth.framework.handle import Handle
from kuberth.framework.registry import PluginFactory
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Store, Stores
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.nominator import Nominator


@dataclass(frozen=True, slots=True)
class Answer:
    """What the profile says about one pod."""

    feasible: tuple[str, ...]
    """Nodes that pass, sorted by name."""
    rejections: Mapping[str, Status]
    """Why each other node is out: the first plugin that rejected it."""
    pre_filter: Status | None = None
    """Set if PreFilter rejected the pod for all nodes; then no node was looked at."""
    considered: tuple[str, ...] | None = None
    """The only nodes looked at, if PreFilter narrowed the search."""
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Plugin, then node: the score after normalising and weighing."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """Node: the sum of its scores."""
    message: str = ""
    """What the FailedScheduling event would say; empty if some node passes."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """What PostFilter did for a pod that fits nowhere."""

    status: Status
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    """namespace/name of the pods that were evicted, sorted."""


class Evaluator:
    """A profile over a fixed set of objects. Objects can be added; nothing is written anywhere."""

    def __init__(
        self,
        objects: Iterable[Any] = (),
        *,
        config: KubeSchedulerConfiguration | None = None,
        profile: str | None = None,
        plugins: Mapping[str, PluginFactory] | None = None,
        feature_gates: FeatureGates | None = None,
    ) -> None:
        self.stores = Stores()
        self.cluster = ClusterTable()
        self.nominator = Nominator()
        self._api = _RecordingApi(self.stores.of(Pod))
        self._background: list[Coroutine[Any, Any, None]] = []
        metrics = SchedulerMetrics()
        config = default_configuration(feature_gates) if config is None else config
        handle = Handle(
            api=self._api,
            stores=self.stores,
            cluster=self.cluster,
            clock=SystemClock(),
            feature_gates=effective_gates(config, feature_gates),
            waiting_pods=WaitingPods(),
            nominator=self.nominator,
            activator=_Ignore(),
            recorder=_Ignore(),
            spawn=lambda work, *, name: self._background.append(work),
            metrics=metrics,
        )
        runners = assemble(config, registry=full_registry(plugins), handle=handle, metrics=metrics)
        if profile is not None and profile not in runners:
            raise KuberthError(f"no profile is called {profile!r}; there are: {', '.join(runners)}")
        self.runner: Runner = runners[profile] if profile is not None else next(iter(runners.values()))
        self.add(*objects)

    def add(self, *objects: Any) -> None:
        """Take in objects: nodes, pods with a node (placed), namespaces, and whatever plugins read."""
        for obj in objects:
            self.stores.of(type(obj)).set(obj)
            self._api.put(obj)
            if isinstance(obj, Node):
                self.cluster.set_node(obj)
            elif isinstance(obj, Namespace):
                self.cluster.set_namespace(obj.metadata.name, obj.metadata.labels)
            elif isinstance(obj, Pod) and obj.spec.node_name:
                self.cluster.add_pod(PodInfo(obj))

    def evaluate(self, pod: Pod, *, score: bool = True) -> Answer:
        """Filter all nodes and score those that pass. Every node is looked at, none is sampled away."""
        state = CycleState(PodInfo(pod))
        diagnosis = Diagnosis()
        answer, nodes = self._filter(state, pod, diagnosis)
        if not answer.feasible or nodes is None or not score:
            return answer
        status = self.runner.run_pre_score(state, pod, nodes)
        if not status.is_success:
            raise KuberthError(status.message) from status.cause
        scores = self.runner.run_score(state, pod, nodes)
        if isinstance(scores, Status):
            raise KuberthError(scores.message) from scores.cause
        names = nodes.names()
        return Answer(
            feasible=answer.feasible,
            rejections=answer.rejections,
            considered=answer.considered,
            scores={
                plugin: dict(zip(names, row.tolist(), strict=True))
                for plugin, row in zip(scores.plugins, scores.by_plugin, strict=True)
            },
            totals=dict(zip(names, scores.totals.tolist(), strict=True)),
        )

    def preempt(self, pod: Pod) -> tuple[Answer, Preemption | None]:
        """Judge the pod, and if it fits nowhere run PostFilter: whom would it evict, and where?"""
        state = CycleState(PodInfo(pod))
        diagnosis = Diagnosis()
        answer, _nodes = self._filter(state, pod, diagnosis)
        if answer.feasible:
            return answer, None
        with self._pending(pod):
            result, status = self.runner.run_post_filter(state, pod, diagnosis)
        asyncio.run(self._run_background())
        return answer, Preemption(
            status=status,
            nominated_node=result.nominated_node if result else "",
            victims=tuple(sorted(self._api.take_back())),
        )

    def hints(self, pod: Pod, event: ClusterEvent, old: object, new: object) -> dict[str, Hint]:
        """What every plugin that registered itself for the event thinks it means for the pod."""
        answers: dict[str, Hint] = {}
        for registered in self.runner.profile.hints:
            if registered.implied or not concerns(registered.event, event):
                continue
            try:
                hint = Hint.QUEUE if registered.hint is None else registered.hint(pod, old, new)
            except Exception:  # as in the queue: a hint that fails counts as Queue
                hint = Hint.QUEUE
            if answers.get(registered.plugin) is not Hint.QUEUE:
                answers[registered.plugin] = hint
        return answers

    def _filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[Answer, Nodes | None]:
        everything = self.cluster.all_nodes()
        outcome = self.runner.run_pre_filter(state, pod, everything)
        if not outcome.status.is_success:
            if not outcome.status.is_rejected:
                raise KuberthError(outcome.status.message) from outcome.status.cause
            diagnosis.absent_status = outcome.status
            diagnosis.pre_filter_message = outcome.status.message
            diagnosis.note(outcome.status)
            message = diagnosis.message(self.cluster.node_count)
            return Answer((), {}, pre_filter=outcome.status, message=message), None
        nodes = everything
        if outcome.node_names is not None:
            nodes = self.cluster.nodes_named(outcome.node_names)
            names = " ".join(sorted(outcome.narrowed_by))
            diagnosis.absent_status = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{names}]")
        passing = self.runner.run_filter(state, pod, nodes, diagnosis)
        if isinstance(passing, Status):
            raise KuberthError(passing.message) from passing.cause
        feasible = nodes.at(passing)
        rejections = dict(diagnosis.explicit)
        for rows, status in diagnosis.rows():
            rejections.update((self.cluster.names[row], status) for row in rows.tolist())
        answer = Answer(
            feasible=tuple(sorted(feasible.names())),
            rejections=rejections,
            considered=None if outcome.node_names is None else tuple(sorted(outcome.node_names)),
            message="" if len(feasible) else diagnosis.message(self.cluster.node_count),
        )
        return answer, feasible

    @contextmanager
    def _pending(self, pod: Pod) -> Iterator[None]:
        """Preemption works on a pod's last known version, so it has to be among the pods."""
        store = self.stores.of(Pod)
        before = store.set(pod)
        try:
            yield
        finally:
            if before is None:
                store.remove(pod)
            else:
                store.set(before)

    async def _run_background(self) -> None:
        while self._background:
            await self._background.pop(0)


class _RecordingApi(MemoryApi):
    """Deletes pods only as far as the stores are concerned, and takes that back."""

    def __init__(self, pods: Store[Pod]) -> None:
        super().__init__()
        self._pods = pods
        self._deleted: dict[str, Pod | None] = {}

    async def delete(
        self,
        kind: type[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        key = f"{namespace}/{name}" if namespace else name
        pod = self._deleted[key] = self._pods.get_by_key(key)
        if pod is not None:
            self._pods.remove(pod)

    def take_back(self) -> Iterable[str]:
        """Undo all deletions; returns whom they were about."""
        deleted, self._deleted = self._deleted, {}
        for pod in deleted.values():
            if pod is not None:
                self._pods.set(pod)
        return deleted


class _Ignore:
    """An activator and an event recorder for which nothing is to be done."""

    def activate(self, pods: Mapping[str, Pod]) -> None:
        pass

    def record(
        self,
        regarding: Pod,
        *,
        reason: str,
        action: str,
        note: str,
        warning: bool = False,
        related: Any = None,
    ) -> None:
        pass
