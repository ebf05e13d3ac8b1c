"""Counters, gauges and histograms under kube-scheduler's names, labels and buckets.

In: observations from every layer, on the hot path, so each is a dict look-up and an addition. Out: one
`SchedulerMetrics` per scheduler whose families can be listed for exposition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

Labels = tuple[str, ...]


class Counter:
    """A sum per label values; gauges use it with negative numbers too."""

    __slots__ = ("help", "kind", "labels", "name", "values")

    def __init__(self, name: str, help_text: str, labels: Labels = (), *, kind: str = "counter") -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self.kind = kind
        self.values: dict[Labels, float] = {}

    def inc(self, labels: Labels = (), number: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + number


class ComputedGauge:
    """A gauge whose values are worked out when someone looks."""

    __slots__ = ("compute", "help", "kind", "labels", "name")

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self.kind = "gauge"
        self.compute: Callable[[], Mapping[Labels, float]] = dict

    @property
    def values(self) -> Mapping[Labels, float]:
        return self.compute()


class HistogramValue:
    """Observations of one combination of label values: a count per bucket, the last one unbounded."""

    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)


class Histogram:
    """Observations per label values, sorted into buckets by their upper bounds."""

    __slots__ = ("buckets", "help", "kind", "labels", "name", "values")

    def __init__(self, name: str, help_text: str, labels: Labels = (), *, buckets: Sequence[float]) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self.kind = "histogram"
        self.buckets = list(buckets)
        self.values: dict[Labels, HistogramValue] = {}

    def observe(self, labels: Labels, number: float) -> None:
        value = self.values.get(labels)
        if value is None:
            value = self.values[labels] = HistogramValue(len(self.buckets))
        value.counts[bisect_left(self.buckets, number)] += 1
        value.sum += number


Family = Counter | ComputedGauge | Histogram


def exponential_buckets(start: float, factor: float, count: int) -> list[float]:
    return [start * factor**power for power in range(count)]


class SchedulerMetrics:
    """All families of one scheduler."""

    def __init__(self) -> None:
        self.schedule_attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self.attempt_duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            buckets=exponential_buckets(0.001, 2, 15),
        )
        self.algorithm_duration = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=exponential_buckets(0.001, 2, 15),
        )
        self.pod_scheduling_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=exponential_buckets(1, 2, 5),
        )
        self.pod_scheduling_sli_duration = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
            "might involve multiple scheduling attempts.",
            ("attempts",),
            buckets=exponential_buckets(0.01, 2, 20),
        )
        self.extension_point_duration = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            buckets=exponential_buckets(0.0001, 2, 12),
        )
        self.plugin_execution_duration = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            ("plugin", "extension_point", "status"),
            buckets=exponential_buckets(0.00001, 1.5, 20),
        )
        self.permit_wait_duration = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ("result",),
            buckets=exponential_buckets(0.001, 2, 15),
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=exponential_buckets(1, 2, 7),
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts_total", "Total preemption attempts in the cluster till now"
        )
        self.queue_incoming_pods = Counter(
            "scheduler_queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
        )
        self.pending_pods = ComputedGauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "
            "means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods; "
            "'gated' is the number of unschedulable pods that the scheduler never attempted because they "
            "are gated.",
            ("queue",),
        )
        self.unschedulable_pods = Counter(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name.",
            ("plugin", "profile"),
            kind="gauge",
        )
        self.inflight_events = Counter(
            "scheduler_inflight_events",
            "Number of events currently tracked in the scheduling queue.",
            ("event",),
            kind="gauge",
        )
        self.queueing_hint_execution_duration = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            ("plugin", "event", "hint"),
            buckets=exponential_buckets(0.00001, 1.5, 20),
        )
        self.event_handling_duration = Histogram(
            "scheduler_event_handling_duration_seconds",
            "Event handling latency in seconds.",
            ("event",),
            buckets=exponential_buckets(0.0001, 2, 12),
        )
        self.scheduled_after_flush = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Number of pods that were scheduled after waiting in the unschedulable pool for too long.",
        )
        self.cache_size = ComputedGauge(
            "scheduler_cache_size", "Number of nodes, pods, and assumed (bound) pods in the cache.", ("type",)
        )
        self.volume_stage_errors = Counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Volume scheduling stage error count",
            ("operation",),
        )

    def families(self) -> Iterator[Family]:
        """Every family, for exposition."""
        return (value for value in vars(self).values() if isinstance(value, Family))
