"""Runs every workload with every scheduler, repeatedly, each time on a new cluster.

In: workloads and contenders. Out: a result for each workload: the median measurements of every contender.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kuberth.bench.arenas import IN_PROCESS, arena
from kuberth.bench.cases import Workload
from kuberth.bench.contenders import KUBERTH, Contender
from kuberth.bench.drawing import Chart, Curve
from kuberth.bench.executor import Executor, Pace, Progress
from kuberth.bench.measurements import Measurement, median, plain
from kuberth.clock import SystemClock
from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.hollow.controllers.resource_claims import ResourceClaimController
from kuberth.local.hollow.informing import Informers, ServerVerbs
from kuberth.local.hollow.pod_claims import CLAIMS, owning_pod
from kuberth.local.hollow.working import Worker, keep_running


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """The settings that the command line gives a run."""

    target: str = IN_PROCESS
    assets: Path | None = None
    repeat: int = 1
    pace: Pace = field(default_factory=Pace)
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that override those of the workloads."""
    with_latencies: bool = False
    """Whether to measure latencies over time, which reads the metrics every second."""


Report = Callable[[str, Progress], None]
"""Called with the current run, such as `Quick/fast · kuberth (2/3)`, and its progress."""


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """The measurements of each contender, Kuberth first; all contenders have the same measured phases."""

    workload: Workload
    measurements: Mapping[str, Sequence[Measurement]]

    def rows(self) -> Iterator[tuple[str, Measurement, float | None]]:
        """Contender, measurement, and how many times the first peer's rate it is."""
        peer = next((name for name in self.measurements if name != KUBERTH), None)
        for name, measurements in self.measurements.items():
            for index, measurement in enumerate(measurements):
                other = self.measurements[peer][index].average if peer is not None else 0.0
                yield name, measurement, measurement.average / other if other and name != peer else None

    @property
    def missed(self) -> bool:
        """Whether Kuberth missed a threshold."""
        ours = self.measurements.get(KUBERTH, ())
        return any(each.verdict is not None and each.verdict.met is False for each in ours)

    def plain(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for name, measurement, ratio in self.rows():
            shown = None if ratio is None else round(ratio, 3)
            rows.append({"scheduler": name, "ratioToFirstPeer": shown, **plain(measurement)})
        return {"case": self.workload.case.name, "workload": self.workload.name, "measurements": rows}

    def charts(self) -> Iterator[Chart]:
        """Throughput and latency over time, for each measured phase."""
        phases = max(len(measurements) for measurements in self.measurements.values())
        for index in range(phases):
            found = {name: measurements[index] for name, measurements in self.measurements.items()}
            title = f"{self.workload}" + (f", {next(iter(found.values())).name}" if phases > 1 else "")
            rates = [
                Curve(name, [(sample.at_seconds, sample.pods_per_second) for sample in each.samples])
                for name, each in found.items()
            ]
            yield Chart(f"{title}: throughput", "pods/s", rates)
            attempts = []
            for name, each in found.items():
                if each.latencies:
                    attempts.append(Curve(f"{name} p50", [(at, p50) for at, p50, _ in each.latencies]))
                    attempts.append(Curve(f"{name} p99", [(at, p99) for at, _, p99 in each.latencies]))
            yield Chart(f"{title}: latency of scheduling attempts", "ms", attempts)


async def run_workload(
    workload: Workload,
    contenders: Mapping[str, Contender],
    settings: BenchSettings,
    report: Report = lambda run, progress: None,
) -> WorkloadResult:
    """Run every contender `repeat` times, in turns, so that other load on the machine affects all of them."""
    if refusal := workload.refusal():
        raise ConfigError(f"{workload.where}: {refusal}")
    runs: dict[str, list[Sequence[Measurement]]] = {name: [] for name in contenders}
    for number in range(settings.repeat):
        for name, contender in contenders.items():
            turn = f" ({number + 1}/{settings.repeat})" if settings.repeat > 1 else ""
            report_run = partial(report, f"{workload} · {name}{turn}")
            runs[name].append(await _run_once(workload, contender, settings, report_run))
    return WorkloadResult(
        workload,
        {name: [median(same) for same in zip(*found, strict=True)] for name, found in runs.items()},
    )


async def _run_once(
    workload: Workload, contender: Contender, settings: BenchSettings, report: Callable[[Progress], None]
) -> Sequence[Measurement]:
    # Batching is off unless a workload turns it on, as in scheduler_perf.
    gates = {"OpportunisticBatching": False, **workload.gates, **settings.gates}
    report(Progress("starting", 0, 0))
    with tempfile.TemporaryDirectory(prefix="kuberth-bench-", ignore_cleanup_errors=True) as folder:
        async with (
            arena(settings.target, gates=gates, folder=Path(folder), assets=settings.assets) as place,
            controlled_claims(place.server) if workload.has_devices else nullcontext(),
            contender(place, workload, gates) as meter,
        ):
            executor = Executor(
                workload,
                place,
                meter,
                pace=settings.pace,
                report=report,
                with_latencies=settings.with_latencies,
            )
            return await executor.run()


@asynccontextmanager
async def controlled_claims(server: ServerVerbs) -> AsyncIterator[None]:
    """Run the controllers of ResourceClaims for the duration of the block."""
    informers = Informers(server)
    claims = ResourceClaimController(informers, clock=SystemClock())
    orphans = OrphanedClaims(informers)
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(keep_running(name, run), name=f"bench: {name}")
            for name, run in (("informers", informers.run), ("claims", claims.run), ("orphans", orphans.run))
        ]
        try:
            await informers.wait_synced()
            yield
        finally:
            for task in running:
                task.cancel()


class OrphanedClaims:
    """Deletes claims after their pods: the only part of a garbage collector that is needed here."""

    def __init__(self, informers: Informers) -> None:
        self._claims = informers.of(CLAIMS)
        self._worker = Worker("orphaned claims", self._sync)
        self.run = self._worker.run
        self._gone: dict[str, str] = {}
        """UIDs of deleted pods, by key of their claim."""
        self._claims.add_index("pod", _owner)
        informers.of("pods").add_handler(self._handle_pod)

    def _handle_pod(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is not None:
            return
        for claim in self._claims.by("pod", old["metadata"]["uid"]):
            self._gone[key_of(claim)] = old["metadata"]["uid"]
            self._worker.add(key_of(claim))

    async def _sync(self, key: str) -> None:
        claim, uid = self._claims.get(key), self._gone.pop(key)
        if claim is not None and _owner(claim) == [uid] and not self._claims.is_terminating(claim):
            await self._claims.delete(claim)


def _owner(claim: Obj) -> list[str]:
    owner = owning_pod(claim)
    return [] if owner is None else [owner["uid"]]
