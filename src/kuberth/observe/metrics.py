"""Counters, gauges and histograms under kube-scheduler's names, labels and buckets.

In: observations from every layer, on the hot path, so each is a dict look-up and an addition. Out: one
`SchedulerMetrics` per scheduler whose families can be listed for exposition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

Labels = tuple[str, ...]

ALPHA: Final = "ALPHA"
BETA: Final = "BETA"
STABLE: Final = "STABLE"
"""How firmly upstream promises a metric; its help text says so."""


class Counter:
    """A sum per label values; gauges use it with negative numbers too."""

    __slots__ = ("help", "kind", "labels", "name", "stability", "values")

    def __init__(
        self, name: str, help_text: str, labels: Labels = (), *, kind: str = "counter", stability: str = ""
    ) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self.kind = kind
        self.stability = stability
        self.values: dict[Labels, float] = {}

    def inc(self, labels: Labels = (), number: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + number

    def set(self, labels: Labels, number: float) -> None:
        """For gauges."""
        self.values[labels] = number


class ComputedGauge:
    """A gauge whose values are worked out when someone looks."""

    __slots__ = ("compute", "help", "kind", "labels", "name", "stability")

    def __init__(self, name: str, help_text: str, labels: Labels = (), *, stability: str = "") -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self.kind = "gauge"
        self.stability = stability
        self.compute: Callable[[], Mapping[Labels, float]] = dict

    @property
    def values(self) -> Mapping[Labels, float]:
        return self.compute()


class HistogramValue:
    """Observations of one combination of label values: a count per bucket, the last one unbounded."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, number: float) -> None:
        self.counts[bisect_left(self.bounds, number)] += 1
        self.sum += number

    @property
    def count(self) -> int:
        return sum(self.counts)


class Histogram:
    """Observations per label values, sorted into buckets by their upper bounds."""

    __slots__ = ("buckets", "help", "kind", "labels", "name", "stability", "values")

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Labels = (),
        *,
        buckets: Sequence[float],
        stability: str = "",
    ) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self.kind = "histogram"
        self.stability = stability
        self.buckets = list(buckets)
        self.values: dict[Labels, HistogramValue] = {}

    def of(self, labels: Labels) -> HistogramValue:
        """The observations with these label values, for whoever makes many of them."""
        value = self.values.get(labels)
        if value is None:
            value = self.values[labels] = HistogramValue(self.buckets)
        return value

    def observe(self, labels: Labels, number: float) -> None:
        value = self.values.get(labels)
        if value is None:
            value = self.of(labels)
        value.counts[bisect_left(self.buckets, number)] += 1
        value.sum += number


Family = Counter | ComputedGauge | Histogram


def exponential_buckets(start: float, factor: float, count: int) -> list[float]:
    """Multiplied step by step, as upstream does: a bound is a label, so its last digit must agree."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return bounds


class _Families:
    """A group of families, each an attribute."""

    def families(self) -> Iterator[Family]:
        """Every family, for exposition."""
        return (value for value in vars(self).values() if isinstance(value, Family))


class PodGroupMetrics(_Families):
    """Families that there are only with the feature gate GenericWorkload."""

    def __init__(self) -> None:
        self.schedule_attempts = Counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group "
            "could not be scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
            stability=ALPHA,
        )
        self.attempt_duration = Histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            buckets=exponential_buckets(0.001, 2, 15),
            stability=ALPHA,
        )
        self.algorithm_duration = Histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds",
            buckets=exponential_buckets(0.001, 2, 15),
            stability=ALPHA,
        )


class SchedulerMetrics(_Families):
    """All families of one scheduler."""

    def families(self) -> Iterator[Family]:
        """Every family, for exposition."""
        yield from super().families()
        if self.groups is not None:
            yield from self.groups.families()

    def __init__(self) -> None:
        self.groups: PodGroupMetrics | None = None
        """Those of pod groups, if pods are scheduled in groups."""
        self.schedule_attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
            stability=STABLE,
        )
        self.attempt_duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            buckets=exponential_buckets(0.001, 2, 15),
            stability=STABLE,
        )
        self.algorithm_duration = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=exponential_buckets(0.001, 2, 15),
            stability=ALPHA,
        )
        self.pod_scheduling_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=exponential_buckets(1, 2, 5),
            stability=STABLE,
        )
        self.pod_scheduling_sli_duration = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
            "might involve multiple scheduling attempts.",
            ("attempts",),
            buckets=exponential_buckets(0.01, 2, 20),
            stability=BETA,
        )
        self.extension_point_duration = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            buckets=exponential_buckets(0.0001, 2, 12),
            stability=STABLE,
        )
        self.plugin_execution_duration = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            ("plugin", "extension_point", "status"),
            buckets=exponential_buckets(0.00001, 1.5, 20),
            stability=ALPHA,
        )
        self.plugin_evaluation = Counter(
            "scheduler_plugin_evaluation_total",
            "Number of attempts to schedule pods by each plugin and the extension point (available only in "
            "PreFilter, Filter, PreScore, and Score).",
            ("plugin", "extension_point", "profile"),
            stability=BETA,
        )
        self.plan_differences = Counter(
            "kuberth_plan_differences_total",
            "Number of checked cycles in which an answer kept for equal pods was not the one that the plugin "
            "gives when it is asked, by plugin. The plugin's `inputs` are wrong; it is asked for every pod.",
            ("plugin", "profile"),
            stability=ALPHA,
        )
        self.permit_wait_duration = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ("result",),
            buckets=exponential_buckets(0.001, 2, 15),
            stability=BETA,
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=exponential_buckets(1, 2, 7),
            stability=STABLE,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            stability=STABLE,
        )
        self.preemption_goroutines_duration = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Duration in seconds for running goroutines for the preemption.",
            ("result",),
            buckets=exponential_buckets(0.01, 2, 20),
            stability=ALPHA,
        )
        self.preemption_goroutines_execution = Counter(
            "scheduler_preemption_goroutines_execution_total",
            "Number of preemption goroutines executed.",
            ("result",),
            stability=ALPHA,
        )
        self.queue_incoming_pods = Counter(
            "scheduler_queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
            stability=STABLE,
        )
        self.pending_pods = ComputedGauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "
            "means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods "
            "that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable "
            "pods that the scheduler never attempted to schedule because they are gated.",
            ("queue",),
            stability=STABLE,
        )
        self.unschedulable_pods = Counter(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for "
            "all plugins that caused it to not schedule and so this metric have meaning only when broken "
            "down by plugin.",
            ("plugin", "profile"),
            kind="gauge",
            stability=BETA,
        )
        self.inflight_events = Counter(
            "scheduler_inflight_events",
            "Number of events currently tracked in the scheduling queue.",
            ("event",),
            kind="gauge",
            stability=ALPHA,
        )
        self.queueing_hint_execution_duration = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            ("plugin", "event", "hint"),
            buckets=exponential_buckets(0.00001, 1.5, 20),
            stability=ALPHA,
        )
        self.event_handling_duration = Histogram(
            "scheduler_event_handling_duration_seconds",
            "Event handling latency in seconds.",
            ("event",),
            buckets=exponential_buckets(0.0001, 2, 12),
            stability=ALPHA,
        )
        self.scheduled_after_flush = Counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Number of pods that were successfully scheduled after being flushed from unschedulablePods due "
            "to timeout. This metric helps detect potential queueing hint misconfigurations or event "
            "handling issues.",
            stability=ALPHA,
        )
        self.resource_claim_creates = Counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler",
            ("status",),
            stability=ALPHA,
        )
        self.binding_conditions_allocations = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per scheduling "
            "attempt",
            ("profile", "driver", "status"),
            stability=ALPHA,
        )
        self.binding_conditions_wait = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            ("profile", "driver", "status"),
            buckets=exponential_buckets(0.1, 2, 14),
            stability=ALPHA,
        )
        self.configuration_reloads = Counter(
            "kuberth_configuration_reloads_total",
            "Number of configurations read while the scheduler ran, by the result. 'error' means that the "
            "old one stayed in force.",
            ("result",),
            stability=ALPHA,
        )
        self.goroutines = Counter(
            "scheduler_goroutines",
            "Number of running goroutines split by the work they do such as binding.",
            ("operation",),
            kind="gauge",
            stability=BETA,
        )
        self.cache_size = ComputedGauge(
            "scheduler_cache_size",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            ("type",),
            stability=ALPHA,
        )
        self.async_api_calls = Counter(
            "scheduler_async_api_call_execution_total",
            "Total number of API calls executed by the async dispatcher.",
            ("call_type", "result"),
            stability=ALPHA,
        )
        self.async_api_call_duration = Histogram(
            "scheduler_async_api_call_execution_duration_seconds",
            "Duration in seconds for executing API call in the async dispatcher.",
            ("call_type", "result"),
            buckets=exponential_buckets(0.001, 2, 15),
            stability=ALPHA,
        )
        self.pending_async_api_calls = Counter(
            "scheduler_pending_async_api_calls",
            "Number of API calls currently pending in the async queue.",
            ("call_type",),
            kind="gauge",
            stability=ALPHA,
        )
        self.volume_stage_errors = Counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Volume scheduling stage error count",
            ("operation",),
            stability=ALPHA,
        )


_REQUEST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REQUEST_BYTES: Final = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class ClientMetrics(_Families):
    """What a client of the API counts; `host` is the server's address, `verb` and `method` upper-case."""

    def __init__(self) -> None:
        self.requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
            stability=ALPHA,
        )
        self.retries = Counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            ("code", "verb", "host"),
            stability=ALPHA,
        )
        self.request_duration = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            buckets=_REQUEST_SECONDS,
            stability=ALPHA,
        )
        self.rate_limiter_duration = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            buckets=_REQUEST_SECONDS,
            stability=ALPHA,
        )
        self.request_size = Histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
            ("verb", "host"),
            buckets=_REQUEST_BYTES,
            stability=ALPHA,
        )
        self.response_size = Histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes. Broken down by verb and host.",
            ("verb", "host"),
            buckets=_REQUEST_BYTES,
            stability=ALPHA,
        )


class LeaderElectionMetrics(_Families):
    """Whether this process leads; `name` is the lease's."""

    def __init__(self) -> None:
        self.master_status = Counter(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 "
            "indicates master. 'name' is the string used to identify the lease. Please make sure to group "
            "by name.",
            ("name",),
            kind="gauge",
            stability=ALPHA,
        )
        self.slowpath = Counter(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string used to "
            "identify the lease. Please make sure to group by name.",
            ("name",),
            stability=ALPHA,
        )


class HealthMetrics(_Families):
    """Results of health checks; `type` is the endpoint they were asked through."""

    def __init__(self) -> None:
        self.last = Counter(
            "kubernetes_healthcheck",
            "This metric records the result of a single healthcheck.",
            ("name", "type"),
            kind="gauge",
            stability=STABLE,
        )
        self.total = Counter(
            "kubernetes_healthchecks_total",
            "This metric records the results of all healthcheck.",
            ("name", "type", "status"),
            stability=STABLE,
        )

    def observe(self, name: str, endpoint: str, *, healthy: bool) -> None:
        self.last.set((name, endpoint), int(healthy))
        self.total.inc((name, endpoint, "success" if healthy else "error"))
