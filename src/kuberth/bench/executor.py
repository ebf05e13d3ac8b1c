"""Runs a workload's operations, one after the other, as scheduler_perf does.

In: a workload, an API server on which a scheduler runs, and the scheduler's meter. Out: a measurement for
every measured phase. Background operations (churn, slow deletions) end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any, Final

from kuberth.bench import operations
from kuberth.bench.arenas import Arena
from kuberth.bench.cases import Workload
from kuberth.bench.collecting import Collector, Meter, PodLedger, ticks
from kuberth.bench.making import PODS, AnyObject, Maker, PreparedPods, paced
from kuberth.bench.measurements import Measurement
from kuberth.errors import ConfigError, KuberthError, first_error
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Informers

DEFAULT_CHURN_MILLISECONDS: Final = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """Polling intervals and time limits."""

    sample_seconds: float = 1.0
    """Seconds between two samples of throughput, and between two checks whether a measured phase is done: as
    in scheduler_perf."""
    poll_seconds: float = 0.2
    """Seconds between two checks whether anything else is done."""
    patience_seconds: float = 600.0
    """Seconds after which a workload fails if its pods are not scheduled."""


@dataclass(frozen=True, slots=True)
class Progress:
    step: str
    done: int
    total: int


Report = Callable[[Progress], None]


class WorkloadFailed(KuberthError):  # noqa: N818 - names what happened, like LeadershipLost
    """A workload failed. The message names the workload, the operation and the reason."""


@dataclass(eq=False)
class Executor:
    """Runs a workload once."""

    workload: Workload
    arena: Arena
    meter: Meter
    pace: Pace = field(kw_only=True)
    report: Report = field(default=lambda progress: None, kw_only=True)
    with_latencies: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._server = self.arena.server
        self._maker = Maker(self._server, self.workload.case, admits_pods=self.arena.admits_pods)
        self._ledger = PodLedger()
        self._expected: dict[str, int] = {}
        """The existing namespaces, and the number of pods that a barrier waits for in each."""
        self._collector: Collector | None = None
        self._measurements: list[Measurement] = []
        self._background: list[asyncio.Task[None]] = []

    async def run(self) -> Sequence[Measurement]:
        steps = self.workload.steps()
        informers = Informers(self._server)
        informers.of("pods").add_handler(self._ledger.handle)
        async with asyncio.TaskGroup() as self._tasks:
            self._spawn(informers.run(), "watch of pods")
            await informers.wait_synced()
            for number, operation in enumerate(steps):
                try:
                    await self._run(operation, number)
                except (KuberthError, ExceptionGroup) as error:
                    if not isinstance(first := first_error(error), KuberthError):
                        raise  # a bug
                    where = f"{self.workload.where}: op {number} ({operation.opcode})"
                    raise WorkloadFailed(f"{where}: {first}") from error
            if self._collector is not None:
                where = self.workload.where
                raise ConfigError(f"{where}: startCollectingMetrics has no stopCollectingMetrics")
            for task in self._background:
                task.cancel()
        return self._measurements

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        async def named_errors() -> None:
            try:
                await work
            except KuberthError as error:
                raise WorkloadFailed(f"{self.workload.where}: {name}: {error}") from error

        self._background.append(self._tasks.create_task(named_errors(), name=name))

    async def _run(self, operation: operations.Operation, number: int) -> None:
        match operation:
            case operations.CreateNodes():
                counted = self._counted(f"{operation.count} nodes", operation.count)
                await self._maker.nodes(operation, number, counted)
            case operations.CreateNamespaces():
                for name in await self._maker.namespaces(operation):
                    self._expected.setdefault(name, 0)
            case operations.CreatePods():
                await self._create_pods(operation, number)
            case operations.CreateAny():
                await self._make_namespace(operation.namespace)
                await self._maker.create_any(operation)
            case operations.UpdateAny():
                await self._make_namespace(operation.namespace)
                await self._maker.update_any(operation)
            case operations.DeletePods():
                await self._delete_pods(operation)
            case operations.Churn():
                await self._start_churn(operation, number)
            case operations.Barrier():
                await self._wait_at(operation)
            case operations.Sleep():
                await asyncio.sleep(operation.seconds)
            case operations.StartCollectingMetrics():
                await self._start_collecting(operation.name, operation.namespaces, operation.label_selector)
            case operations.StopCollectingMetrics():
                await self._stop_collecting()
            case operations.CreateResourceDriver():
                await self._maker.driver(operation)
            case operations.CreateResourceClaims():
                await self._make_namespace(operation.namespace)
                await self._maker.claims(operation)
            case operations.AllocResourceClaims():
                await self._maker.allocate(operation)
            case _:
                raise AssertionError(f"unknown operation {operation.opcode}")

    # Pods

    async def _create_pods(self, operation: operations.CreatePods, number: int) -> None:
        namespace = operation.namespace or f"namespace-{number}"
        await self._make_namespace(namespace)
        pods = await self._maker.prepared_pods(operation, namespace)
        if operation.collect_metrics:
            await self._start_collecting(namespace, (namespace,), {})
        if operation.steady_state:
            await self._run_steady_state(pods, operation, namespace)
        elif operation.skip_wait_to_completion:
            await pods.create()
            self._expected[namespace] += operation.count
        else:
            await pods.create(self._counted(f"{operation.count} pods", operation.count))
            await self._until_scheduled(namespace, {}, operation.count, measured=operation.collect_metrics)
        if operation.collect_metrics:
            await self._stop_collecting()

    async def _run_steady_state(
        self, pods: PreparedPods, operation: operations.CreatePods, namespace: str
    ) -> None:
        """Create a batch of pods and delete it when all of them are scheduled, repeatedly."""
        scheduled = 0
        batch_done = asyncio.Event()

        def count_pod(pod: Obj) -> None:
            nonlocal scheduled
            if namespace_of(pod) == namespace:
                scheduled += 1
                if scheduled % operation.count == 0:
                    batch_done.set()

        unsubscribe = self._ledger.listen(count_pod)
        try:
            async with asyncio.timeout(operation.seconds):
                while True:
                    await pods.create()
                    await batch_done.wait()
                    batch_done.clear()
                    await self._delete_all(namespace, {}, gracePeriodSeconds=0)
        except TimeoutError:
            pass
        finally:
            unsubscribe()
        if not scheduled:
            raise ConfigError(
                f"no pod at all was scheduled within {operation.seconds:g} s; is the duration too short?"
            )

    async def _delete_pods(self, operation: operations.DeletePods) -> None:
        chosen = [name_of(pod) for pod in self._ledger.pods((operation.namespace,), operation.label_selector)]

        async def delete() -> None:
            if not operation.delete_pods_per_second:
                await self._delete_all(operation.namespace, operation.label_selector)
                return
            async for name in paced(chosen, operation.delete_pods_per_second):
                await self._delete(PODS, name, operation.namespace)

        if operation.skip_wait_to_completion:
            self._spawn(delete(), "deletion of pods")
        else:
            await delete()

    async def _delete(self, resource: str | ServedResource, name: str, namespace: str) -> None:
        try:
            await self._server.delete(resource, name, namespace=namespace)
        except StatusError as error:
            if error.code != 404:  # the pod was deleted before, most likely by preemption
                raise

    async def _delete_all(self, namespace: str, labels: Mapping[str, str], **options: int) -> None:
        await self._server.delete_collection(
            PODS,
            namespace=namespace,
            label_selector=",".join(f"{key}={value}" for key, value in labels.items()),
            options={"propagationPolicy": "Background", **options},
        )

    # Background operations

    async def _start_churn(self, operation: operations.Churn, number: int) -> None:
        namespace = operation.namespace or f"namespace-{number}"
        await self._maker.namespace(namespace)
        objects: list[AnyObject] = []
        for path in operation.template_paths:
            objects += await self._maker.any_objects(path, namespace, 1, expect_scope=False)
        self._spawn(self._churn(operation, objects, namespace), f"churn of op {number}")

    async def _churn(self, operation: operations.Churn, objects: Sequence[AnyObject], namespace: str) -> None:
        """Create the objects once per round, without end unless there is a number of rounds.

        In the mode `recreate`, the rounds begin again, and delete what they created before.
        """
        rounds = iter(range(operation.number)) if operation.number else count()
        if operation.mode == "recreate":
            rounds = cycle(rounds)
        names: dict[tuple[int, int], str] = {}
        milliseconds = operation.interval_milliseconds or DEFAULT_CHURN_MILLISECONDS
        clock = ticks(milliseconds / 1000)
        for turn in rounds:
            await anext(clock)
            for index, each in enumerate(objects):
                if name := names.pop((turn, index), ""):
                    await self._delete(each.row, name, namespace)
                else:
                    names[turn, index] = await self._create_or_not(each, namespace)

    async def _create_or_not(self, made: AnyObject, namespace: str) -> str:
        """Create an object; returns its name, or "" if the server refused it, which churn ignores."""
        try:
            created = await self._server.create(
                made.row, made.body, namespace=namespace if made.row.namespaced else ""
            )
        except StatusError:
            return ""
        return str(created["metadata"]["name"])

    # Waiting

    async def _wait_at(self, operation: operations.Barrier) -> None:
        for namespace in operation.namespaces:
            if namespace not in self._expected:
                raise ConfigError(f"no earlier operation creates the namespace {namespace}")
        for namespace in operation.namespaces or list(self._expected):
            await self._until_scheduled(
                namespace,
                operation.label_selector,
                self._expected[namespace],
                attempted_is_enough=operation.stage_requirement == "Attempted",
                measured=self._collector is not None,
            )
        if operation.stage_requirement != "Attempted":
            # Nothing is pending there any more.
            for namespace in operation.namespaces or list(self._expected):
                self._expected[namespace] = 0

    async def _until_scheduled(
        self,
        namespace: str,
        labels: Mapping[str, str],
        wanted: int,
        *,
        attempted_is_enough: bool = False,
        measured: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.pace.patience_seconds
        verb = "attempted" if attempted_is_enough else "scheduled"
        while True:
            stages = self._ledger.stages((namespace,), labels)
            done = stages.scheduled + (stages.attempted if attempted_is_enough else 0)
            self.report(Progress(f"{wanted} pods {verb}", min(done, wanted), wanted))
            if done >= wanted:
                return
            if loop.time() > until:
                seen = f"; {stages.waiting} waits, for one" if stages.waiting else ""
                raise ConfigError(
                    f"only {done} of {wanted} pods in {namespace} were {verb} within "
                    f"{self.pace.patience_seconds:g} s{seen}; do they fit, or is a longer --timeout needed?"
                )
            await asyncio.sleep(self.pace.sample_seconds if measured else self.pace.poll_seconds)

    # Measuring

    async def _start_collecting(
        self, name: str, namespaces: Sequence[str], labels: Mapping[str, str]
    ) -> None:
        if self._collector is not None:
            raise ConfigError("metrics are being collected already; stop that first")
        self._collector = Collector(
            name,
            workload=self.workload,
            ledger=self._ledger,
            meter=self.meter,
            namespaces=namespaces,
            labels=labels,
            interval_seconds=self.pace.sample_seconds,
            with_latencies=self.with_latencies,
        )
        await self._collector.start(self._tasks)

    async def _stop_collecting(self) -> None:
        if self._collector is None:
            raise ConfigError("no metrics are being collected; startCollectingMetrics comes first")
        collector, self._collector = self._collector, None
        self._measurements.append(await collector.stop())

    async def _make_namespace(self, name: str) -> None:
        if name and name not in self._expected:
            await self._maker.namespace(name)
            self._expected[name] = 0

    def _counted(self, step: str, total: int) -> Callable[[], None]:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done % 50 == 0 or done == total:
                scheduled = "" if self._collector is None else f", {self._collector.scheduled} scheduled"
                self.report(Progress(f"{step}{scheduled}", done, total))

        return advance
