"""Measures one phase of a workload: throughput and cost.

In: the ledger, and the scheduler's meter. Out: a `Measurement` at the end of the phase.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from kuberth.bench.cases import THROUGHPUT, LabelValues, Workload
from kuberth.bench.histograms import HistogramReading, combinations
from kuberth.bench.ledger import PodLedger, SeenPod
from kuberth.bench.measurements import (
    ATTEMPTS,
    EXTENSION_POINTS,
    PLUGINS,
    LatencySample,
    Measurement,
    MetricSummary,
    judged,
)
from kuberth.bench.throughput import ThroughputSampler

MILLISECONDS: Final = 1000.0
_DEFAULT_METRICS: Final = (EXTENSION_POINTS, PLUGINS, ATTEMPTS)
_BREAKDOWN: Final = {
    EXTENSION_POINTS: ("extension_point",),
    PLUGINS: ("plugin", "extension_point"),
    ATTEMPTS: ("result",),
}


class ProcessUsage(NamedTuple):
    """Of the scheduler's process; None where the system does not report it."""

    cpu_seconds: float | None
    peak_mib: float | None


class Meter(Protocol):
    """The figures of one scheduler."""

    def usage(self) -> ProcessUsage: ...

    async def metrics(self) -> str:
        """The text of its /metrics; "" if it has none."""
        ...


class Collector:
    """One stretch. Make it, `await start()`, let things happen, `await stop()`."""

    def __init__(
        self,
        name: str,
        *,
        workload: Workload,
        ledger: PodLedger,
        meter: Meter,
        namespaces: Collection[str],
        labels: Mapping[str, str],
        interval_seconds: float,
        with_latencies: bool,
    ) -> None:
        self._name = name
        self._workload = workload
        self._ledger = ledger
        self._meter = meter
        self._namespaces = frozenset(namespaces)
        self._labels = labels.items()
        self._interval = interval_seconds
        self._with_latencies = with_latencies
        self._sampler = ThroughputSampler()
        self._latencies: list[LatencySample] = []
        self._scheduled = 0
        self._first = self._last = self._began = 0.0
        self._used = ProcessUsage(None, None)
        wanted = {*_DEFAULT_METRICS, *workload.case.metrics}
        self._wanted = wanted | ({workload.selector.name} - {THROUGHPUT})
        self._before = HistogramReading()

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._before = await self._read()
        self._used = self._meter.usage()
        self._began = self._loop.time()
        self._deafen = self._ledger.listen(self._saw)
        self._ticking = tasks.create_task(self._tick(), name="throughput samples")

    @property
    def scheduled(self) -> int:
        return self._scheduled

    async def stop(self) -> Measurement:
        self._ticking.cancel()
        self._deafen()
        used = self._meter.usage()
        after = await self._read()
        attempts = after.between(self._before, ATTEMPTS, {"result": "scheduled"})
        metrics = list(self._summaries(after))
        throughput = self._sampler.summary()
        cpu = None
        if used.cpu_seconds is not None and self._used.cpu_seconds is not None and self._scheduled:
            cpu = (used.cpu_seconds - self._used.cpu_seconds) * MILLISECONDS / self._scheduled
        span = self._last - self._first
        return Measurement(
            name=self._name,
            scheduled=self._scheduled,
            seconds=max(self._last - self._began, 0.0),
            overall=(self._scheduled - 1) / span if span > 0 else 0.0,
            throughput=throughput,
            cpu_ms_per_pod=cpu,
            peak_mib=used.peak_mib,
            attempts_ms=attempts.summary(factor=MILLISECONDS),
            metrics=metrics,
            verdict=judged(self._workload.threshold, self._workload.selector, throughput, metrics),
            samples=[
                each._replace(at_seconds=each.at_seconds - self._began) for each in self._sampler.samples
            ],
            latencies=self._latencies,
        )

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _saw(self, pod: SeenPod) -> None:
        if pod.namespace in self._namespaces and self._labels <= pod.labels.items():
            self._scheduled += 1
            self._last = self._loop.time()
            if self._scheduled == 1:
                self._first = self._last

    async def _tick(self) -> None:
        at = self._began
        reading = self._before
        while True:
            # On a grid, so that a late tick does not make all later ones late.
            at = max(at + self._interval, self._loop.time())
            await asyncio.sleep(at - self._loop.time())
            now = self._loop.time()
            self._sampler.take(now, self._scheduled)
            if self._with_latencies:
                later = await self._read()
                found = later.between(reading, ATTEMPTS, {"result": "scheduled"}).summary(factor=MILLISECONDS)
                if found is not None:
                    self._latencies.append(LatencySample(now - self._began, found.perc50, found.perc99))
                reading = later

    async def _read(self) -> HistogramReading:
        return HistogramReading(await self._meter.metrics(), self._wanted)

    def _summaries(self, after: HistogramReading) -> Iterator[MetricSummary]:
        configured: Mapping[str, tuple[LabelValues, ...] | None] = self._workload.case.metrics
        selector = self._workload.selector
        for name in sorted(self._wanted):
            if name in configured:
                chosen = list(combinations(configured[name]))
            else:
                chosen = after.label_values(name, _BREAKDOWN.get(name, ()))
                if name == selector.name and selector.labels:
                    chosen = [*chosen, dict(selector.labels)]
            for labels in chosen:
                found = after.between(self._before, name, labels).summary(factor=MILLISECONDS)
                if found is not None:
                    yield MetricSummary(name, labels, found)
