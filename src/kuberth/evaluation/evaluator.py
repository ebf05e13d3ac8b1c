"""The framework as a library: evaluate a pod over a set of objects, without a running scheduler.

In: Kubernetes objects and a configuration. Out: which nodes pass, why the others do not, how they score,
which pods preemption would evict, and what queueing hints say. For cluster autoscalers and planners:

    evaluator = Evaluator([*nodes, *pods], config=config)
    answer = evaluator.evaluate(pod)
    answer.feasible            # names of the nodes that pass
    answer.rejections["n1"]    # the Status that rules out n1: plugin, code, reasons
    answer.totals              # node -> weighted score
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kuberth.api.core import Namespace, Node, Pod
from kuberth.assembly.profiles import assemble, derive_with, effective_gates, full_registry
from kuberth.client.protocol import Api, ObjectList, WatchEvent
from kuberth.client.writes import Verb, Write
from kuberth.clock import SystemClock
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.errors import KuberthError, NotFoundError
from kuberth.extenders.http_extender import is_interested
from kuberth.framework.cluster_events import ClusterEvent, Hint, concerns
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import Scores
from kuberth.framework.handle import Handle, PodEvent
from kuberth.framework.nominator import Nominator
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.framework.runner import Runner
from kuberth.framework.running.scoring import NodeScores
from kuberth.framework.status import Status
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.rejection import NO_NODES
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.sampling import EveryNode


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a profile for one pod."""

    feasible: tuple[str, ...]
    """The feasible nodes, sorted by name."""
    rejections: Mapping[str, Status]
    """The rejections of all other nodes: the first plugin that rejected each."""
    pre_filter: Status | None = None
    """Set if PreFilter rejected the pod for all nodes, so that none was evaluated."""
    considered: tuple[str, ...] | None = None
    """The evaluated nodes, if PreFilter narrowed the search."""
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Scores by plugin and node, normalized and weighted."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """The sum of the scores by node."""
    message: str = ""
    """The FailedScheduling message; empty if a node is feasible."""
    not_asked: tuple[str, ...] = ()
    """URLs of extenders that are interested in the pod; they are not called."""
    rejected_by: tuple[str, ...] = ()
    """The names of plugins that rejected the pod on some node, or narrowed the search."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """The result of PostFilter for a pod that fits nowhere."""

    status: Status
    """The status of the last PostFilter plugin."""
    nominated_node: str = ""
    """The nominated node, or ""."""
    victims: tuple[str, ...] = ()
    """namespace/name of the victims, sorted."""


class Evaluator:
    """Evaluates pods with one profile over a set of objects. It writes nothing."""

    def __init__(
        self,
        objects: Iterable[Any] = (),
        *,
        config: KubeSchedulerConfiguration | None = None,
        profile: str | None = None,
        plugins: Mapping[str, PluginFactory] | None = None,
        feature_gates: FeatureGates | None = None,
        registry: Registry | None = None,
        with_plans: bool = True,
    ) -> None:
        """`plugins` are added to the in-tree ones; a `registry` replaces both.

        `with_plans`: equal pods share results; this does not change any result.
        """
        self.stores = Stores()
        """All objects, by kind."""
        self.cluster = ClusterTable()
        """The nodes and placed pods among them."""
        self.nominator = Nominator()
        """Nominated pods; add some to see their effect."""
        self._api = DryRunApi(self.stores)
        self._background: list[Coroutine[Any, Any, None]] = []
        metrics = SchedulerMetrics()
        config = default_configuration(feature_gates) if config is None else config
        gates = effective_gates(config, feature_gates)
        self._derive = derive_with(gates)
        self._extenders = config.extenders
        handle = Handle(
            api=self._api,
            stores=self.stores,
            cluster=self.cluster,
            clock=SystemClock(),
            feature_gates=gates,
            waiting_pods=WaitingPods(),
            nominator=self.nominator,
            activator=_NoOp(),
            recorder=_NoOp(),
            spawn=lambda work, *, name: self._background.append(work),
            metrics=metrics,
        )
        self.runners = assemble(
            config,
            registry=full_registry(plugins) if registry is None else registry,
            handle=handle,
            metrics=metrics,
            with_plans=with_plans,
        )
        """The plugins of every profile."""
        if profile is not None and profile not in self.runners:
            raise KuberthError(f"no profile is called {profile!r}; there are: {', '.join(self.runners)}")
        self.runner: Runner = self.runners[next(iter(self.runners)) if profile is None else profile]
        """The plugins of the profile in use; can be set to another of `runners`."""
        self._cycle = SchedulingCycle(
            self.cluster, nominator=self.nominator, metrics=metrics, sampling=EveryNode()
        )
        self.add(*objects)

    def add(self, *objects: Any) -> None:
        """Add objects: nodes, placed pods, namespaces, and other objects that plugins read."""
        for obj in objects:
            self.stores.of(type(obj)).set(obj)
            if isinstance(obj, Node):
                self.cluster.set_node(obj)
            elif isinstance(obj, Namespace):
                self.cluster.set_namespace(obj.metadata.name, obj.metadata.labels)
            elif isinstance(obj, Pod) and obj.spec.node_name:
                self.cluster.add_pod(self._derive(obj))

    def remove(self, *objects: Any) -> None:
        """Remove objects."""
        for obj in objects:
            self.stores.of(type(obj)).remove(obj)
            if isinstance(obj, Node):
                self.cluster.remove_node(obj.metadata.name)
            elif isinstance(obj, Namespace):
                self.cluster.set_namespace(obj.metadata.name, None)
            elif isinstance(obj, Pod):
                self.cluster.remove_pod(obj.metadata.uid)

    def evaluate(self, pod: Pod, *, score: bool = True) -> Answer:
        """Filter all nodes and score the feasible ones, like a scheduling cycle without sampling.

        If the pod's status has a nominated node and the pod fits there, only that node is tried.
        """
        question = self._ask(pod)
        if not len(question.nodes) or not score:
            return question.answer()
        scores = self._cycle.rank(question.state, pod, self.runner, question.nodes)
        if isinstance(scores, Status):
            raise KuberthError(scores.message) from scores.cause
        return question.answer(scores=scores)

    def feasible(self, pod: Pod) -> list[str]:
        """The names of the feasible nodes, in no particular order."""
        return self._ask(pod).nodes.names()

    def preempt(self, pod: Pod) -> tuple[Answer, Preemption | None]:
        """Evaluate the pod, and run PostFilter if it fits nowhere: the nominated node and the victims."""
        question = self._ask(pod)
        if len(question.nodes) or not self.cluster.node_count:
            return question.answer(), None
        with self.pending(pod):
            result, _status = self._cycle.run_post_filter(
                question.state, pod, self.runner, question.diagnosis
            )
        self._run_background()
        victims = self._api.undo_deletions()
        if question.diagnosis.post_filter is None:
            return question.answer(), None
        return question.answer(), Preemption(
            status=question.diagnosis.post_filter,
            nominated_node=result.nominated_node if result else "",
            victims=tuple(sorted(victims)),
        )

    @contextmanager
    def pending(self, pod: Pod) -> Iterator[None]:
        """Add the pod to the objects while the block lasts, as a scheduler does for each attempt."""
        store = self.stores.of(Pod)
        before = store.set(pod)
        try:
            yield
        finally:
            if before is None:
                store.remove(pod)
            else:
                store.set(before)

    def objections(self, pod: Pod) -> dict[str, tuple[Status, ...]]:
        """The rejections of every Filter plugin by node, not only the first one.

        Empty if PreFilter rejected the pod, because plugins then have no data for Filter.
        """
        state, nodes = CycleState(self._derive(pod)), self.cluster.all_nodes()
        if not self.runner.pre_filtering.run(state, pod, nodes).status.is_success:
            return {}
        blocks = self.runner.filtering.objections(state, pod, nodes)
        if isinstance(blocks, Status):
            raise KuberthError(blocks.message) from blocks.cause
        found: dict[str, list[Status]] = {}
        for block in blocks:
            statuses: dict[int, Status] = {}
            for position, code in zip(block.positions.tolist(), block.codes.tolist(), strict=True):
                if code not in statuses:
                    statuses[code] = block.verdict.status(code).by(block.plugin)
                found.setdefault(nodes.name(position), []).append(statuses[code])
        return {name: tuple(given) for name, given in found.items()}

    def hints(self, pod: Pod, event: ClusterEvent, old: object, new: object) -> dict[str, Hint]:
        """The queueing hint of every plugin that registered for the event."""
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

    def _ask(self, pod: Pod) -> _SearchResult:
        state, diagnosis = CycleState(self._derive(pod)), Diagnosis()
        with self.pending(pod):
            found = self._cycle.search(state, pod, self.runner, diagnosis)
        if not isinstance(found, Status):
            return _SearchResult(self.cluster, state, diagnosis, found[0], not_asked=self._not_asked(pod))
        if found.message != NO_NODES:
            raise KuberthError(found.message) from found.cause
        # Not the whole table: it may have rows of nodes that were removed.
        nothing = self.cluster.nodes_named(())
        return _SearchResult(self.cluster, state, diagnosis, nothing, message=NO_NODES)

    def _not_asked(self, pod: Pod) -> tuple[str, ...]:
        return tuple(
            extender.url_prefix
            for extender in self._extenders
            if is_interested(frozenset(each.name for each in extender.managed_resources), pod)
        )

    def _run_background(self) -> None:
        """Run the coroutines that plugins have spawned.

        The caller may be in an event loop, which is blocked meanwhile; since a second loop in the same thread
        is not allowed, this one runs in its own thread.
        """

        async def run_all() -> None:
            while self._background:
                await self._background.pop(0)

        if self._background:
            with ThreadPoolExecutor(1) as threads:
                threads.submit(asyncio.run, run_all()).result()


class _SearchResult(NamedTuple):
    """The result of a search."""

    cluster: ClusterTable
    state: CycleState
    diagnosis: Diagnosis
    nodes: Nodes
    """The feasible nodes."""
    message: str = ""
    not_asked: tuple[str, ...] = ()

    def answer(self, *, scores: NodeScores | None = None) -> Answer:
        names = self.nodes.names()

        def by_node(column: Scores) -> dict[str, int]:
            return dict(zip(names, column.tolist(), strict=True))

        diagnosis = self.diagnosis
        rejections = dict(diagnosis.explicit)
        for rows, status in diagnosis.rows():
            rejections.update((self.cluster.names[row], status) for row in rows.tolist())
        return Answer(
            feasible=tuple(sorted(names)),
            rejections=rejections,
            pre_filter=diagnosis.pre_filter,
            considered=None if diagnosis.considered is None else tuple(sorted(diagnosis.considered)),
            message=self.message or ("" if names else diagnosis.message(self.cluster.node_count)),
            not_asked=self.not_asked,
            rejected_by=tuple(sorted(diagnosis.unschedulable_plugins)),
            scores={plugin: by_node(row) for plugin, row in scores.by_plugin.items()} if scores else {},
            totals=by_node(scores.totals) if scores else {},
        )


class _NoOp:
    """An activator and an event recorder that do nothing."""

    def activate(self, pods: Mapping[str, Pod]) -> None:
        pass

    def record(self, event: PodEvent) -> None:
        pass


T = TypeVar("T")


class DryRunApi(Api):
    """An API for dry runs: it reads from the stores.

    A deleted object is missing from its store until `undo_deletions`; other writes return what a server
    would, without an effect.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._deleted: dict[str, Any] = {}

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        return ObjectList(tuple(self._stores.of(kind)), "0")

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        changes: tuple[WatchEvent, ...] = ()
        for change in changes:
            yield change

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        obj = self._stores.of(kind).get(name, namespace=namespace)
        if obj is None:
            raise NotFoundError(f"{kind.__name__} {namespace}/{name} is not among the objects")
        return obj

    async def write(self, write: Write) -> Any:
        if write.verb in (Verb.CREATE, Verb.UPDATE):
            return write.body
        obj = await self.get(write.kind, write.name, namespace=write.namespace)
        if write.verb is Verb.PATCH:
            return obj
        self._stores.of(write.kind).remove(obj)
        self._deleted[f"{write.namespace}/{write.name}" if write.namespace else write.name] = obj
        return None

    def undo_deletions(self) -> Iterable[str]:
        """Restore all deleted objects; returns their keys."""
        deleted, self._deleted = self._deleted, {}
        for obj in deleted.values():
            self._stores.of(type(obj)).set(obj)
        return deleted
