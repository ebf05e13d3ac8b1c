"""Simulates one run: a scheduler, users and kubelets over an in-memory API, on virtual time.

In: a `Scenario` and a seed. Out: its `Outcome`. The scheduler, its queue, hints, backoffs, permits and
plugins are the same as in `kuberth run`; time jumps from one event to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import msgspec

from kuberth.api.core import Binding, Namespace, Node, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.pods import FINISHED
from kuberth.api.scheduling import PriorityClass
from kuberth.assembly.profiles import full_registry
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.protocol import Api, WatchEvent, WatchType
from kuberth.client.writes import Write
from kuberth.clock import Clock, LoopClock, run_in_virtual_time
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.errors import AlreadyExistsError, ApiError, ConfigError, KuberthError, first_error
from kuberth.framework.handle import PodEvent
from kuberth.framework.registry import Registry
from kuberth.local.manifests import Manifest
from kuberth.local.memory_api import MemoryApi
from kuberth.outcomes.event_recorder import ApiEventRecorder, EventSeriesState
from kuberth.queue.interface import QueueFactory
from kuberth.simulation.arrivals import Arrival, ArrivalPods, pod_groups, with_names
from kuberth.simulation.controlling import ManagedCluster, namespace_of, served
from kuberth.simulation.kubelets import Kubelets, create_arrivals, started
from kuberth.simulation.node_policies import Fleet, NodePolicy, node_of
from kuberth.simulation.observing import MAX_SAMPLES, ClusterUsage, RunObserver, RunRecorder
from kuberth.simulation.outcomes import VERSION, Attempts, Outcome, Reason, rounded, waits
from kuberth.simulation.workloads import arrival_of

GANG_GATES: Final = ("GenericWorkload", "GangScheduling")
"""Enabled for a trace with gangs, unless the scenario sets them."""
QUIET_SECONDS: Final = 15.0
"""Longer than the longest backoff: a pod that is not tried for this long waits for an event."""
NODES_PATIENCE: Final = 30 * 86_400.0
"""The longest time to wait after the last arrival if nodes change: a pod may never finish."""
MAX_REASONS: Final = 40
_LIMIT_SECONDS: Final = 2.0**32
_QUIET_CHECKS: Final = 2
"""Number of consecutive checks without activity that end a run."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate."""

    nodes: Sequence[Node]
    arrivals: Sequence[Arrival]
    objects: Sequence[Any] = ()
    """Other objects in the cluster at the start, including pods on nodes."""
    name: str = "simulation"
    config: KubeSchedulerConfiguration | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    registry: Callable[[], Registry] = full_registry
    queue: QueueFactory | None = None
    until: float | None = None
    """When to stop; None: when nothing can change any more."""
    managed: Sequence[Manifest] = ()
    """Objects that controllers act on: Deployments, Jobs, budgets and so on."""
    controllers: bool = False
    """Whether to run controllers even if `managed` is empty."""
    node_policies: Sequence[NodePolicy] = ()
    """The policies that add and remove nodes; not together with controllers."""
    records: bool = False
    """Whether to record every pod and node in the outcome."""

    @property
    def has_controllers(self) -> bool:
        return self.controllers or bool(self.managed)


Report = Callable[[int, float], None]
"""Called during a run, with the number of arrived pods of the trace, and the virtual time."""


def no_report(_arrived: int, _seconds: float) -> None:
    """Report nothing."""


def simulate(
    scenario: Scenario,
    *,
    seed: int = 0,
    report: Report = no_report,
    interruptible: bool = False,
    on_start: Callable[[RunObserver], None] = lambda _observer: None,
) -> Outcome:
    """Run the scenario.

    With `interruptible` (only in the main thread), the first SIGINT ends the run: the outcome covers the time
    until then. `on_start` is called in the run's task with the object that measures the run.
    """

    if scenario.has_controllers and scenario.node_policies:
        raise ConfigError("node policies need a simulation without controllers, whose kubelets would stay")

    async def main() -> Outcome:
        gates = effective_gates(scenario)
        clock = LoopClock(asyncio.get_running_loop())
        cluster: AbstractAsyncContextManager[ManagedCluster | None] = contextlib.nullcontext()
        if scenario.has_controllers:
            cluster = served(scenario.managed, clock=clock, gates=gates, seed=seed)
        async with cluster as managed:
            run = SimulationRun(
                scenario,
                SimulationApi(clock=clock, feature_gates=gates, steady=True)
                if managed is None
                else managed.api,
                seed=seed,
                report=report,
                interruptible=interruptible,
                pod_runners=managed,
                on_start=on_start,
            )
            return await run.run()

    with _rare_garbage_collection(), _single_error():
        return run_in_virtual_time(main, limit_seconds=_LIMIT_SECONDS)


@contextmanager
def _single_error() -> Iterator[None]:
    """Raise a KuberthError without the exception groups around it."""
    try:
        yield
    except ExceptionGroup as group:
        if group.split(KuberthError)[1] is not None:
            raise
        raise first_error(group) from None


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage rarely: pods create few reference cycles."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def effective_gates(scenario: Scenario) -> dict[str, bool]:
    gates = dict(scenario.gates)
    if any(each.gang for each in scenario.arrivals):
        for name in GANG_GATES:
            gates.setdefault(name, True)
    return gates


@dataclass(eq=False)
class SimulationRun:
    """One run over an empty API, on the running event loop's time, virtual or real."""

    scenario: Scenario
    api: Api
    _: KW_ONLY
    seed: int
    report: Report = no_report
    interruptible: bool = False
    pod_runners: ManagedCluster | None = None
    """They run the pods, including controllers that create them; None: kubelets only."""
    on_start: Callable[[RunObserver], None] = lambda _observer: None

    def __post_init__(self) -> None:
        loop, scenario, api = asyncio.get_running_loop(), self.scenario, self.api
        self._arrived = 0
        clock = LoopClock(loop)
        self._time, self._start = loop.time, loop.time()
        self._kubelets = self.pod_runners or Kubelets(api, clock=clock)
        self._recorder = RunRecorder(scenario.nodes, now=self._now) if scenario.records else None
        self._reason_counter = ReasonCounter(
            api, clock, on_event=None if self._recorder is None else self._recorder.handle_event
        )
        self._scheduler = Scheduler(
            api,
            config=scenario.config,
            queue=scenario.queue,
            feature_gates=FeatureGates(effective_gates(scenario)),
            registry=scenario.registry(),
            clock=clock,
            rng=random.Random(self.seed),
            recorder=self._reason_counter,
        )

    def _now(self) -> float:
        """Virtual seconds since the start."""
        return self._time() - self._start

    async def run(self) -> Outcome:
        scenario, api, kubelets = self.scenario, self.api, self._kubelets
        arrivals = with_names(scenario.arrivals)
        await self._create_objects()
        span = scenario.until or max((each.arrival for _, each in arrivals), default=0.0)
        shapes = [shape for policy in scenario.node_policies for shape in policy.shapes()]
        observer = RunObserver(
            ClusterUsage(scenario.nodes, later=[node_of(shape, "later") for shape in shapes]),
            now=self._now,
            interval=max(1.0, span / (MAX_SAMPLES / 2)),
            last_arrival=max(
                (*(each.arrival for _, each in arrivals), *map(arrival_of, scenario.managed), 0.0)
            ),
            on_sample=lambda sample: self.report(self._arrived, sample.at),
        )
        self.on_start(observer)
        recorders = [self._recorder] if self._recorder else []
        self._fleet = Fleet(
            api,
            sorted(scenario.nodes, key=lambda node: node.metadata.name),
            scenario.node_policies,
            seed=self.seed,
            now=self._now,
            evict=kubelets.evict,
            listeners=[observer.handle_node, *(each.handle_node for each in recorders)],
        )
        notified = [*(each.handle_pod for each in recorders), observer.handle_pod, kubelets.handle_pod]
        if scenario.node_policies:
            notified.append(self._fleet.handle_pod)
        interrupted = False
        async with asyncio.TaskGroup() as tasks:
            scheduling = tasks.create_task(self._scheduler.run(), name="scheduler")
            await self._scheduler.wait_synced()
            followers = [
                tasks.create_task(self._follow(*notified), name="followers"),
                tasks.create_task(kubelets.run(), name="kubelets"),
                tasks.create_task(observer.sample(), name="samples"),
                tasks.create_task(self._fleet.run(), name="nodes"),
            ]
            users = create_arrivals(
                api,
                arrivals,
                pod_groups(scenario.arrivals),
                maker=ArrivalPods(scheduler_name=self._scheduler.config.profiles[0].scheduler_name),
                now=self._now,
                on_arrival=self._report_arrival,
            )
            playing = tasks.create_task(users, name="users")
            try:
                async with asyncio.timeout(None) as limit:
                    with _end_on_interrupt(limit) if self.interruptible else contextlib.nullcontext():
                        await self._wait_for_end(playing)
            except TimeoutError:
                if not limit.expired():
                    raise
                interrupted = True
            playing.cancel()
            observer.take_sample()
            outcome = self._outcome(observer, interrupted=interrupted)
            self._scheduler.stop()
            for task in followers:
                task.cancel()
            await scheduling
        return outcome

    async def _wait_for_end(self, playing: asyncio.Task[None]) -> None:
        if self.scenario.until is not None:
            await asyncio.sleep(self.scenario.until - self._now())
            return
        await playing
        with contextlib.suppress(TimeoutError):
            patience = NODES_PATIENCE if self.scenario.node_policies else self._kubelets.patience
            async with asyncio.timeout(patience):
                await self._wait_quiet()

    def _report_arrival(self, number: int) -> None:
        self._arrived = number
        self.report(number, self._now())

    async def _create_objects(self) -> None:
        scenario, api = self.scenario, self.api
        there = {"default", *(each.metadata.name for each in scenario.objects if isinstance(each, Namespace))}
        wanted = {each.tenant for each in scenario.arrivals} | {
            each.metadata.namespace for each in scenario.objects if isinstance(each, Pod)
        }
        wanted |= {namespace_of(each) for each in scenario.managed}
        for name in sorted({"default", *wanted} - (there - {"default"})):
            with contextlib.suppress(AlreadyExistsError):
                await api.create(Namespace(metadata=ObjectMeta(name=name)))
        # Sorted as an API server lists them: the scheduler tries nodes in the order of their creation.
        nodes = sorted(scenario.nodes, key=lambda node: node.metadata.name)
        for obj in (*nodes, *sorted(scenario.objects, key=lambda obj: _CREATION_ORDER.get(type(obj), 2))):
            await api.create(obj)

    async def _follow(self, *listeners: Callable[[WatchEvent], None]) -> None:
        """Pass every change of a pod to the listeners, in their order, until cancelled."""
        async for event in self.api.watch(Pod, resource_version="0"):
            if event.type is not WatchType.BOOKMARK:
                for notify in listeners:
                    notify(event)

    async def _wait_quiet(self) -> None:
        """Return when nothing can change any more: pods that are still pending would wait forever."""
        kubelets, queue, quiet = self._kubelets, self._scheduler.queue, 0
        while quiet < _QUIET_CHECKS:
            await kubelets.wait_idle()
            await asyncio.sleep(QUIET_SECONDS)
            queues = queue.pending_pods()
            tried = any(pods for queue, pods in queues.items() if queue not in ("unschedulable", "gated"))
            tried = tried and not self._fleet.empty
            busy = tried or queue.in_flight() or not kubelets.idle or len(self._scheduler.waiting_pods)
            busy = busy or not self._fleet.idle
            quiet = 0 if busy else quiet + 1

    def _outcome(self, observer: RunObserver, *, interrupted: bool) -> Outcome:
        usage, metrics = observer.usage, self._scheduler.metrics
        settled = self.scenario.until is None and not interrupted
        end = observer.last_change if settled else self._now()
        observer.finish(end)
        attempts: Counter[str] = Counter()
        for (result, *_), number in metrics.schedule_attempts.values.items():
            attempts[result] += int(number)
        tried = Attempts(attempts["scheduled"], attempts["unschedulable"], attempts["error"])
        everyone = usage.waits_by(lambda _tenant, _priority: "", now=end)
        samples = observer.samples
        nodes_mean, nodes_used = observer.mean_nodes()
        return Outcome(
            version=VERSION,
            name=self.scenario.name,
            seed=self.seed,
            nodes=len(self.scenario.nodes),
            seconds=rounded(observer.last_change),
            pods=usage.counts(),
            waits=everyone.get("", waits(())),
            waits_by_priority=usage.waits_by(lambda _tenant, priority: str(priority), now=end),
            waits_by_tenant=usage.waits_by(lambda tenant, _priority: tenant, now=end),
            utilisation=observer.utilisation(),
            drain_utilisation=observer.drain_utilisation(),
            arrival_seconds=rounded(observer.arrival_seconds),
            fragmentation=_mean([each.fragmentation for each in samples]),
            fairness=_mean([each.fairness for each in samples]),
            attempts=tried,
            attempts_wasted=rounded(tried.wasted),
            reasons=self._reason_counter.reasons(),
            samples=samples,
            interrupted=interrupted,
            nodes_mean=nodes_mean,
            nodes_used=nodes_used,
            records=self._recorder.records(end) if self._recorder else msgspec.UNSET,
        )


@contextmanager
def _end_on_interrupt(limit: asyncio.Timeout) -> Iterator[None]:
    """Pass the first SIGINT to the limit; a second one interrupts as usual."""
    loop = asyncio.get_running_loop()

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        loop.call_soon_threadsafe(lambda: limit.reschedule(loop.time()))

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_CREATION_ORDER: Final[Mapping[type[Any], int]] = {Namespace: 0, PriorityClass: 1, Pod: 3}
"""The order of creation: objects that others refer to come before them; 2 for other kinds."""


def _mean(numbers: Sequence[float]) -> float:
    return rounded(sum(numbers) / len(numbers)) if numbers else 0.0


_NODES: Final = re.compile(r"^\d+/\d+ nodes are available: ")
_COUNT: Final = re.compile(r"^(\d+) ")


class SimulationApi(MemoryApi):
    """An in-memory API that accepts bindings without a task.

    It combines writes that happen at the same time: the binding also starts the pod, as its kubelet would,
    and a finished pod is removed without being marked first.
    """

    def _bound(self, pod: Pod, binding: Binding, *, now_ns: int) -> Pod:
        bound = super()._bound(pod, binding, now_ns=now_ns)
        return started(bound, now_ns=now_ns) if pod.status.phase in ("", "Pending") else bound

    def _delete(self, write: Write) -> None:
        key = f"{write.namespace}/{write.name}"
        pod = self._table(Pod).objects.get(key) if write.kind is Pod else None
        if pod is None or not _has_ended(pod, write.uid):
            super()._delete(write)
        else:
            self._remove(Pod, key)

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        if write.subresource != "binding":
            return None
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            if check is not None:
                check()
            self.write_nowait(write)
        except ApiError as error:
            answer.set_exception(error)
        else:
            answer.set_result(None)
        return answer


def _has_ended(pod: Pod, uid: str) -> bool:
    """Whether the pod has this UID, has ended and has no finalizers."""
    metadata = pod.metadata
    return metadata.uid == uid and not metadata.finalizers and pod.status.phase in FINISHED


class ReasonCounter(ApiEventRecorder):
    """Counts the reasons in FailedScheduling events instead of writing events."""

    def __init__(self, api: Api, clock: Clock, *, on_event: Callable[[PodEvent], None] | None) -> None:
        """`on_event` is called with every event, repeated ones included."""
        super().__init__(api, clock, controllers=("",))
        self._on_event = on_event
        self._reasons: Counter[str] = Counter()

    def record(self, event: PodEvent) -> EventSeriesState | None:
        if self._on_event is not None:
            self._on_event(event)
        series = super().record(event) if event.reason == "FailedScheduling" else None
        return series if self._on_event is None else None

    def _enqueue(self, series: EventSeriesState) -> None:
        # Later occurrences have the same reasons.
        if series.times == 1:
            self._reasons.update(reasons_in(series.first.note))

    def reasons(self) -> list[Reason]:
        ordered = sorted(self._reasons.items(), key=lambda each: (-each[1], each[0]))
        return [Reason(text, pods) for text, pods in ordered[:MAX_REASONS]]


def reasons_in(note: str) -> list[str]:
    """The reasons of a FailedScheduling event, without node counts and preemption messages."""
    text = _NODES.sub("", note).partition(". ")[0].rstrip(". ")
    return sorted({_COUNT.sub("", part.strip()) for part in text.split(", ")} - {""})
