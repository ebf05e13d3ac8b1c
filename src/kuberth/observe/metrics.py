"""Counters, gauges and histograms under kube-scheduler's names, labels and buckets.

In: observations from every layer, on the hot path, so each is a dict look-up and an addition. Out: one
`SchedulerMetrics` per scheduler whose families can be listed for exposition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, TypeVar

Labels = tuple[str, ...]

ALPHA: Final = "ALPHA"
BETA: Final = "BETA"
STABLE: Final = "STABLE"
"""Stability levels of upstream's metrics; the help text starts with them."""


@dataclass(slots=True, eq=False)
class _Described:
    """The name and the help text of a family, and the names of its labels."""

    kind: ClassVar[str]
    name: str
    help: str
    labels: Labels = ()
    stability: str = field(default="", kw_only=True)


@dataclass(slots=True, eq=False)
class Counter(_Described):
    """A sum per label values."""

    kind = "counter"
    values: dict[Labels, float] = field(default_factory=dict, init=False)

    def inc(self, labels: Labels = (), number: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + number


@dataclass(slots=True, eq=False)
class Gauge(Counter):
    """A number per label values that goes up and down."""

    kind = "gauge"

    def set(self, labels: Labels, number: float) -> None:
        self.values[labels] = number


@dataclass(slots=True, eq=False)
class ComputedGauge(_Described):
    """A gauge whose values are computed when it is read."""

    kind = "gauge"
    compute: Callable[[], Mapping[Labels, float]] = field(default=dict, init=False)

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
        # Most durations fall into the first bucket.
        self.counts[0 if number <= self.bounds[0] else bisect_left(self.bounds, number)] += 1
        self.sum += number

    def observe_many(self, number: float, times: int) -> None:
        """Observe the same number many times."""
        self.counts[bisect_left(self.bounds, number)] += times
        self.sum += number * times

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(slots=True, eq=False)
class Histogram(_Described):
    """Observations per label values, sorted into buckets by their upper bounds."""

    kind = "histogram"
    buckets: Sequence[float] = field(kw_only=True)
    values: dict[Labels, HistogramValue] = field(default_factory=dict, init=False)

    def of(self, labels: Labels) -> HistogramValue:
        """The observations with these label values, for callers that make many of them."""
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
F = TypeVar("F", Counter, Gauge, ComputedGauge, Histogram)


def exponential_buckets(start: float, factor: float, count: int) -> list[float]:
    """Bounds multiplied step by step, as upstream: a bound is a label, so its last digit must agree."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return bounds


_TENTHS_OF_MILLISECONDS: Final = exponential_buckets(0.0001, 2, 12)
_MILLISECONDS: Final = exponential_buckets(0.001, 2, 15)
_CENTISECONDS: Final = exponential_buckets(0.01, 2, 20)
_PLUGIN_SECONDS: Final = exponential_buckets(0.00001, 1.5, 20)
_REQUEST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REQUEST_BYTES: Final = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class MetricSet:
    """Families that are counted together: the class declares them, every instance has its own."""

    def __init__(self) -> None:
        for name, family in vars(type(self)).items():
            if isinstance(family, Family):
                setattr(self, name, replace(family))

    def families(self) -> Iterator[Family]:
        """Every family, for exposition."""
        return (value for value in vars(self).values() if isinstance(value, Family))


# The families as tables: name, help text, labels, buckets, stability.
# fmt: off

class PodGroupMetrics(MetricSet):
    """Families that exist only with the feature gate GenericWorkload."""

    schedule_attempts = Counter(
        "scheduler_podgroup_schedule_attempts_total",
        "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could "
        "not be scheduled, while 'error' means an internal scheduler problem.",
        ("result", "profile"), stability=ALPHA)
    attempt_duration = Histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
        ("result", "profile"), buckets=_MILLISECONDS, stability=ALPHA)
    algorithm_duration = Histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "Pod group scheduling algorithm latency in seconds",
        buckets=_MILLISECONDS, stability=ALPHA)


class SchedulerMetrics(MetricSet):
    """The metric families of one scheduler."""

    schedule_attempts = Counter(
        "scheduler_schedule_attempts_total",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
        "scheduled, while 'error' means an internal scheduler problem.",
        ("result", "profile"), stability=STABLE)
    attempt_duration = Histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        ("result", "profile"), buckets=_MILLISECONDS, stability=STABLE)
    algorithm_duration = Histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "Scheduling algorithm latency in seconds",
        buckets=_MILLISECONDS, stability=ALPHA)
    pod_scheduling_attempts = Histogram(
        "scheduler_pod_scheduling_attempts",
        "Number of attempts to successfully schedule a pod.",
        buckets=exponential_buckets(1, 2, 5), stability=STABLE)
    pod_scheduling_sli_duration = Histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might "
        "involve multiple scheduling attempts.",
        ("attempts",), buckets=_CENTISECONDS, stability=BETA)
    extension_point_duration = Histogram(
        "scheduler_framework_extension_point_duration_seconds",
        "Latency for running all plugins of a specific extension point.",
        ("extension_point", "status", "profile"), buckets=_TENTHS_OF_MILLISECONDS, stability=STABLE)
    plugin_execution_duration = Histogram(
        "scheduler_plugin_execution_duration_seconds",
        "Duration for running a plugin at a specific extension point.",
        ("plugin", "extension_point", "status"), buckets=_PLUGIN_SECONDS, stability=ALPHA)
    plugin_evaluation = Counter(
        "scheduler_plugin_evaluation_total",
        "Number of attempts to schedule pods by each plugin and the extension point (available only in "
        "PreFilter, Filter, PreScore, and Score).",
        ("plugin", "extension_point", "profile"), stability=BETA)
    batch_attempts = Counter(
        "scheduler_batch_attempts_total",
        "Counts of results when we attempt to use batching.",
        ("profile", "result"), stability=ALPHA)
    repeated_rejections = Counter(
        "kuberth_repeated_rejections_total",
        "Attempts that ended as that of an equal pod did, without asking plugins, since nothing had changed.",
        ("profile",), stability=ALPHA)
    oldest_untried_pod = ComputedGauge(
        "kuberth_oldest_untried_pod_seconds",
        "How long the pod waits that has been ready for longest without an attempt; 0 if there is none.",
        stability=ALPHA)
    plan_differences = Counter(
        "kuberth_plan_differences_total",
        "Number of checked cycles in which an answer kept for equal pods differed from the plugin's own, by "
        "plugin. The plugin's `inputs` are wrong; from then on it runs for every pod.",
        ("plugin", "profile"), stability=ALPHA)
    permit_wait_duration = Histogram(
        "scheduler_permit_wait_duration_seconds",
        "Duration of waiting on permit.",
        ("result",), buckets=_MILLISECONDS, stability=BETA)
    preemption_victims = Histogram(
        "scheduler_preemption_victims",
        "Number of selected preemption victims",
        buckets=exponential_buckets(1, 2, 7), stability=STABLE)
    preemption_attempts = Counter(
        "scheduler_preemption_attempts_total",
        "Total preemption attempts in the cluster till now",
        stability=STABLE)
    preemption_goroutines_duration = Histogram(
        "scheduler_preemption_goroutines_duration_seconds",
        "Duration in seconds for running goroutines for the preemption.",
        ("result",), buckets=_CENTISECONDS, stability=ALPHA)
    preemption_goroutines_execution = Counter(
        "scheduler_preemption_goroutines_execution_total",
        "Number of preemption goroutines executed.",
        ("result",), stability=ALPHA)
    queue_incoming_pods = Counter(
        "scheduler_queue_incoming_pods_total",
        "Number of pods added to scheduling queues by event and queue type.",
        ("queue", "event"), stability=STABLE)
    pending_pods = ComputedGauge(
        "scheduler_pending_pods",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "
        "means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that "
        "the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that "
        "the scheduler never attempted to schedule because they are gated.",
        ("queue",), stability=STABLE)
    unschedulable_pods = Gauge(
        "scheduler_unschedulable_pods",
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for "
        "all plugins that caused it to not schedule and so this metric have meaning only when broken down "
        "by plugin.",
        ("plugin", "profile"), stability=BETA)
    inflight_events = Gauge(
        "scheduler_inflight_events",
        "Number of events currently tracked in the scheduling queue.",
        ("event",), stability=ALPHA)
    queueing_hint_execution_duration = Histogram(
        "scheduler_queueing_hint_execution_duration_seconds",
        "Duration for running a queueing hint function of a plugin.",
        ("plugin", "event", "hint"), buckets=_PLUGIN_SECONDS, stability=ALPHA)
    event_handling_duration = Histogram(
        "scheduler_event_handling_duration_seconds",
        "Event handling latency in seconds.",
        ("event",), buckets=_TENTHS_OF_MILLISECONDS, stability=ALPHA)
    scheduled_after_flush = Counter(
        "scheduler_pod_scheduled_after_flush_total",
        "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to "
        "timeout. This metric helps detect potential queueing hint misconfigurations or event handling "
        "issues.",
        stability=ALPHA)
    resource_claim_creates = Counter(
        "scheduler_resourceclaim_creates_total",
        "Number of ResourceClaims creation requests within scheduler",
        ("status",), stability=ALPHA)
    binding_conditions_allocations = Counter(
        "scheduler_dra_bindingconditions_allocations_total",
        "Number of allocations using devices with BindingConditions, counted per driver per scheduling "
        "attempt",
        ("profile", "driver", "status"), stability=ALPHA)
    binding_conditions_wait = Histogram(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
        ("profile", "driver", "status"), buckets=exponential_buckets(0.1, 2, 14), stability=ALPHA)
    configuration_reloads = Counter(
        "kuberth_configuration_reloads_total",
        "Number of configurations read while the scheduler ran, by the result. 'error' means that the old "
        "one stayed in force.",
        ("result",), stability=ALPHA)
    goroutines = Gauge(
        "scheduler_goroutines",
        "Number of running goroutines split by the work they do such as binding.",
        ("operation",), stability=BETA)
    write_limit = ComputedGauge(
        "kuberth_write_limit",
        "Number of writes that may wait for the API server at a time, by kind. It follows how fast the "
        "server answers.",
        ("write",), stability=ALPHA)
    writes_in_flight = ComputedGauge(
        "kuberth_writes_in_flight",
        "Number of writes that wait for the API server, by kind.",
        ("write",), stability=ALPHA)
    cache_size = ComputedGauge(
        "scheduler_cache_size",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        ("type",), stability=ALPHA)
    plans = ComputedGauge(
        "kuberth_plans",
        "Number of kinds of equal pods whose verdicts and scores are kept for the next of them.",
        ("profile",), stability=ALPHA)
    async_api_calls = Counter(
        "scheduler_async_api_call_execution_total",
        "Total number of API calls executed by the async dispatcher.",
        ("call_type", "result"), stability=ALPHA)
    async_api_call_duration = Histogram(
        "scheduler_async_api_call_execution_duration_seconds",
        "Duration in seconds for executing API call in the async dispatcher.",
        ("call_type", "result"), buckets=_MILLISECONDS, stability=ALPHA)
    pending_async_api_calls = Gauge(
        "scheduler_pending_async_api_calls",
        "Number of API calls currently pending in the async queue.",
        ("call_type",), stability=ALPHA)
    volume_stage_errors = Counter(
        "scheduler_volume_scheduling_stage_error_total",
        "Volume scheduling stage error count",
        ("operation",), stability=ALPHA)

    groups: PodGroupMetrics | None = None
    """Families of pod groups, if pods are scheduled in groups."""

    def __init__(self) -> None:
        super().__init__()
        self._added: dict[str, Family] = {}

    def add(self, family: F) -> F:
        """Serve a family of a plugin or a queue, and return it.

        If one of this name was added before, as by the plugin that a reload has replaced, that one is
        returned and goes on. ValueError: the name is taken by a family of the scheduler, or by one of another
        type or other labels.
        """
        taken = {each.name: each for each in self.families()}.get(family.name)
        if taken is None:
            self._added[family.name] = family
            return family
        is_same = self._added.get(family.name) is taken and taken.labels == family.labels
        if not is_same or not isinstance(taken, type(family)):
            raise ValueError(f"the metric {family.name} exists already, labels {taken.labels}; rename yours")
        return taken

    def families(self) -> Iterator[Family]:
        """Every family, for exposition."""
        yield from super().families()
        if self.groups is not None:
            yield from self.groups.families()
        yield from self._added.values()


class ClientMetrics(MetricSet):
    """Requests of an API client; `host` is the server's address, `verb` and `method` are upper-case."""

    requests = Counter(
        "rest_client_requests_total",
        "Number of HTTP requests, partitioned by status code, method, and host.",
        ("code", "method", "host"), stability=ALPHA)
    retries = Counter(
        "rest_client_request_retries_total",
        "Number of request retries, partitioned by status code, verb, and host.",
        ("code", "verb", "host"), stability=ALPHA)
    request_duration = Histogram(
        "rest_client_request_duration_seconds",
        "Request latency in seconds. Broken down by verb, and host.",
        ("verb", "host"), buckets=_REQUEST_SECONDS, stability=ALPHA)
    rate_limiter_duration = Histogram(
        "rest_client_rate_limiter_duration_seconds",
        "Client side rate limiter latency in seconds. Broken down by verb, and host.",
        ("verb", "host"), buckets=_REQUEST_SECONDS, stability=ALPHA)
    request_size = Histogram(
        "rest_client_request_size_bytes",
        "Request size in bytes. Broken down by verb and host.",
        ("verb", "host"), buckets=_REQUEST_BYTES, stability=ALPHA)
    response_size = Histogram(
        "rest_client_response_size_bytes",
        "Response size in bytes. Broken down by verb and host.",
        ("verb", "host"), buckets=_REQUEST_BYTES, stability=ALPHA)


class LeaderElectionMetrics(MetricSet):
    """Whether this process leads; `name` is the lease's name."""

    master_status = Gauge(
        "leader_election_master_status",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates "
        "master. 'name' is the string used to identify the lease. Please make sure to group by name.",
        ("name",), stability=ALPHA)
    slowpath = Counter(
        "leader_election_slowpath_total",
        "Total number of slow path exercised in renewing leader leases. 'name' is the string used to "
        "identify the lease. Please make sure to group by name.",
        ("name",), stability=ALPHA)


class HealthMetrics(MetricSet):
    """Results of health checks; `type` is the endpoint that ran them."""

    last = Gauge(
        "kubernetes_healthcheck",
        "This metric records the result of a single healthcheck.",
        ("name", "type"), stability=STABLE)
    total = Counter(
        "kubernetes_healthchecks_total",
        "This metric records the results of all healthcheck.",
        ("name", "type", "status"), stability=STABLE)

    def observe(self, name: str, endpoint: str, *, healthy: bool) -> None:
        self.last.set((name, endpoint), int(healthy))
        self.total.inc((name, endpoint, "success" if healthy else "error"))
