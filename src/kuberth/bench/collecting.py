"""Measures one phase of a workload: throughput and cost.

In: the changes of an informer of pods, the scheduler's meter and its histograms. Out: the stage of every pod
(created, attempted, scheduled), and a `Measurement` at the end of the phase.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple, Protocol

from kuberth.bench.cases import THROUGHPUT, LabelValues, Workload
from kuberth.bench.measurements import (
    ATTEMPTS,
    EXTENSION_POINTS,
    PERCENTILES,
    PLUGINS,
    Distribution,
    LatencySample,
    Measurement,
    MetricSummary,
    ThroughputSampler,
    threshold_verdict,
)
from kuberth.local.apiserver.objects import Obj, key_of, labels_of, name_of, namespace_of
from kuberth.observe.reading import read_samples

Key = frozenset[tuple[str, str]]


MILLISECONDS: Final = 1000.0
_DEFAULT_METRICS: Final = (EXTENSION_POINTS, PLUGINS, ATTEMPTS)
_BREAKDOWN: Final = {
    EXTENSION_POINTS: ("extension_point",),
    PLUGINS: ("plugin", "extension_point"),
    ATTEMPTS: ("result",),
}


class Stages(NamedTuple):
    """The number of pods by their stage; each is in one stage."""

    scheduled: int
    attempted: int
    unattempted: int
    waiting: str
    """A pod that is not scheduled, for messages; one that was attempted if there is one."""


class PodLedger:
    """The pods of every namespace."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Obj]] = {}
        self._listeners: list[Callable[[Obj], None]] = []

    def handle(self, old: Obj | None, new: Obj | None) -> None:
        """Handle a change of a pod, as an informer reports it."""
        if new is None:
            if old is not None:
                self._pods.get(namespace_of(old), {}).pop(name_of(old), None)
            return
        pods = self._pods.setdefault(namespace_of(new), {})
        before = pods.get(name_of(new))
        pods[name_of(new)] = new
        if new["spec"].get("nodeName") and not (before and before["spec"].get("nodeName")):
            for listener in self._listeners:
                listener(new)

    def listen(self, listener: Callable[[Obj], None]) -> Callable[[], None]:
        """Call it for every newly scheduled pod, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def pods(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Iterator[Obj]:
        wanted = labels.items()
        for namespace in namespaces:
            for pod in self._pods.get(namespace, {}).values():
                if not wanted or wanted <= labels_of(pod).items():
                    yield pod

    def stages(self, namespaces: Collection[str], labels: Mapping[str, str]) -> Stages:
        scheduled, attempted, unattempted = 0, [], []
        for pod in self.pods(namespaces, labels):
            conditions = pod.get("status", {}).get("conditions", ())
            if pod["spec"].get("nodeName"):
                scheduled += 1
            elif any(condition["type"] == "PodScheduled" for condition in conditions):
                attempted.append(pod)
            else:
                unattempted.append(pod)
        waiting = next((key_of(pod) for pod in (*attempted, *unattempted)), "")
        return Stages(scheduled, len(attempted), len(unattempted), waiting)


class HistogramReading:
    """Values of some histograms at one moment."""

    def __init__(self, text: str = "", names: Iterable[str] = ()) -> None:
        self._found: dict[str, dict[Key, dict[str, float]]] = {name: {} for name in names}
        """By name and labels: `sum`, `count`, and by upper bound the number of values up to it."""
        for sample in read_samples(text, self._found):
            name, _, part = sample.name.rpartition("_")
            family = self._found.get(name)
            if family is None:
                continue
            labels = {label: value for label, value in sample.labels.items() if label != "le"}
            if part in ("bucket", "sum", "count"):
                observed = family.setdefault(frozenset(labels.items()), {})
                observed[sample.labels.get("le", part)] = sample.value

    def between(self, earlier: HistogramReading, name: str, labels: Mapping[str, str]) -> Observations:
        """The observations since `earlier`, of all combinations of label values that have these."""
        wanted = set(labels.items())
        found: dict[str, float] = {}
        for key, observed in self._found.get(name, {}).items():
            if wanted <= key:
                before = earlier._found.get(name, {}).get(key, {})
                for part, value in observed.items():
                    found[part] = found.get(part, 0.0) + value - before.get(part, 0.0)
        total, count = found.pop("sum", 0.0), found.pop("count", 0.0)
        return Observations(total, count, sorted((float(bound), number) for bound, number in found.items()))

    def label_values(self, name: str, labels: Sequence[str]) -> list[dict[str, str]]:
        """Every combination of these labels' values that was observed."""
        found = {
            tuple((label, value) for label, value in sorted(key) if label in labels)
            for key in self._found.get(name, {})
        }
        return [dict(pairs) for pairs in sorted(found)]


@dataclass(frozen=True, slots=True)
class Observations:
    """Observed values of a histogram; `buckets` has upper bounds with the number of values up to each."""

    sum: float
    count: float
    buckets: Sequence[tuple[float, float]]

    def summary(self, *, factor: float = 1.0) -> Distribution | None:
        """The average and percentiles; None if nothing was observed."""
        if self.count <= 0 or len(self.buckets) < 2:
            return None
        quantiles = (self.quantile(percent / 100) * factor for percent in PERCENTILES.values())
        return Distribution(self.sum / self.count * factor, *quantiles)

    def quantile(self, q: float) -> float:
        rank = q * self.buckets[-1][1]
        at = next(index for index, (_, number) in enumerate(self.buckets) if number >= rank)
        bound, number = self.buckets[at]
        if at == 0:
            return bound * (rank / number) if number else 0.0
        below, fewer = self.buckets[at - 1]
        if math.isinf(bound):
            return below  # the histogram does not say more
        return below + (bound - below) * ((rank - fewer) / (number - fewer))


def combinations(labels: Sequence[LabelValues] | None) -> Iterator[dict[str, str]]:
    """Every choice of one value a label; without labels the one that chooses nothing."""
    names = [each.label for each in labels or ()]
    for values in product(*(each.values for each in labels or ())):
        yield dict(zip(names, values, strict=True))


class ProcessUsage(NamedTuple):
    """CPU time and memory of the scheduler's process; None where the system does not report it."""

    cpu_seconds: float | None
    peak_mib: float | None


class Meter(Protocol):
    """The figures of one scheduler."""

    def usage(self) -> ProcessUsage: ...

    async def metrics(self) -> str:
        """The text of its /metrics; "" if it has none."""
        ...


async def ticks(seconds: float) -> AsyncIterator[float]:
    """The time at every tick; a tick that is late by more than an interval counts once."""
    loop = asyncio.get_running_loop()
    at = loop.time()
    while True:
        # On a grid, so that a late tick does not make all later ones late.
        at = max(at + seconds, loop.time())
        await asyncio.sleep(at - loop.time())
        yield loop.time()


@dataclass(eq=False)
class Collector:
    """Measures one phase of a workload, between `await start()` and `await stop()`."""

    name: str
    workload: Workload
    ledger: PodLedger
    meter: Meter
    namespaces: Collection[str]
    labels: Mapping[str, str]
    interval_seconds: float
    with_latencies: bool

    def __post_init__(self) -> None:
        self._sampler = ThroughputSampler()
        self._latencies: list[LatencySample] = []
        self.scheduled = 0
        """The number of pods that were scheduled in this phase."""
        self._first = self._last = self._began = 0.0
        self._used = ProcessUsage(None, None)
        self._wanted = {*_DEFAULT_METRICS, *self.workload.case.metrics, self.workload.selector.name} - {
            THROUGHPUT
        }
        self._before = HistogramReading()

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._before = await self._read()
        self._used = self.meter.usage()
        self._began = self._loop.time()
        self._unsubscribe = self.ledger.listen(self._count_pod)
        self._ticking = tasks.create_task(self._tick(), name="throughput samples")

    async def stop(self) -> Measurement:
        self._ticking.cancel()
        self._unsubscribe()
        used = self.meter.usage()
        after = await self._read()
        attempts = after.between(self._before, ATTEMPTS, {"result": "scheduled"})
        metrics = list(self._summaries(after))
        throughput = self._sampler.summary()
        cpu = None
        if used.cpu_seconds is not None and self._used.cpu_seconds is not None and self.scheduled:
            cpu = (used.cpu_seconds - self._used.cpu_seconds) * MILLISECONDS / self.scheduled
        return Measurement(
            name=self.name,
            scheduled=self.scheduled,
            seconds=max(self._last - self._began, 0.0),
            overall=self._overall(),
            throughput=throughput,
            cpu_ms_per_pod=cpu,
            peak_mib=used.peak_mib,
            attempts_ms=attempts.summary(factor=MILLISECONDS),
            metrics=metrics,
            verdict=threshold_verdict(self.workload.threshold, self.workload.selector, throughput, metrics),
            samples=[
                each._replace(at_seconds=each.at_seconds - self._began) for each in self._sampler.samples
            ],
            latencies=self._latencies,
        )

    def _overall(self) -> float:
        if self._last > self._first:
            return (self.scheduled - 1) / (self._last - self._first)
        # One pod, or several that one turn of the event loop saw: there is no time between first and last.
        return self.scheduled / (self._last - self._began) if self._last > self._began else 0.0

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _count_pod(self, pod: Obj) -> None:
        if namespace_of(pod) in self.namespaces and self.labels.items() <= labels_of(pod).items():
            self.scheduled += 1
            self._last = self._loop.time()
            if self.scheduled == 1:
                self._first = self._last

    async def _tick(self) -> None:
        reading = self._before
        async for now in ticks(self.interval_seconds):
            self._sampler.take(now, self.scheduled)
            if self.with_latencies:
                later = await self._read()
                found = later.between(reading, ATTEMPTS, {"result": "scheduled"}).summary(factor=MILLISECONDS)
                if found is not None:
                    self._latencies.append(LatencySample(now - self._began, found.perc50, found.perc99))
                reading = later

    async def _read(self) -> HistogramReading:
        return HistogramReading(await self.meter.metrics(), self._wanted)

    def _summaries(self, after: HistogramReading) -> Iterator[MetricSummary]:
        configured: Mapping[str, tuple[LabelValues, ...] | None] = self.workload.case.metrics
        selector = self.workload.selector
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
