"""The names, labels, stability and buckets that dashboards of kube-scheduler v1.36 rely on, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kuberth.observe.metrics import (
    ClientMetrics,
    Counter,
    Family,
    Gauge,
    HealthMetrics,
    Histogram,
    LeaderElectionMetrics,
    PodGroupMetrics,
    SchedulerMetrics,
    exponential_buckets,
)

MILLISECONDS = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512]
MILLISECONDS += [1.024, 2.048, 4.096, 8.192, 16.384]
TENTHS = [0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048]
CENTISECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96]
CENTISECONDS += [81.92, 163.84, 327.68, 655.36, 1310.72, 2621.44, 5242.88]
# 0.00001 times 1.5 and again times 1.5, as Go's floats do it: the digits are label values.
PLUGIN_SECONDS = [
    1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05, 3.375000000000001e-05, 5.062500000000001e-05,
    7.593750000000002e-05, 0.00011390625000000003, 0.00017085937500000006, 0.0002562890625000001,
    0.00038443359375000017, 0.0005766503906250003, 0.0008649755859375004, 0.0012974633789062506,
    0.0019461950683593758, 0.0029192926025390638, 0.004378938903808595, 0.006568408355712893,
    0.009852612533569338, 0.014778918800354007, 0.02216837820053101,
]  # fmt: skip
REQUEST_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
REQUEST_BYTES = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216]

# name, kind, labels, stability, buckets
FACTS: Sequence[tuple[str, str, str, str, Sequence[float]]] = [
    ("scheduler_schedule_attempts_total", "counter", "result profile", "STABLE", ()),
    ("scheduler_scheduling_attempt_duration_seconds", "histogram", "result profile", "STABLE", MILLISECONDS),
    ("scheduler_preemption_victims", "histogram", "", "STABLE", [1, 2, 4, 8, 16, 32, 64]),
    ("scheduler_preemption_attempts_total", "counter", "", "STABLE", ()),
    ("scheduler_pending_pods", "gauge", "queue", "STABLE", ()),
    ("scheduler_pod_scheduling_attempts", "histogram", "", "STABLE", [1, 2, 4, 8, 16]),
    (
        "scheduler_framework_extension_point_duration_seconds",
        "histogram",
        "extension_point status profile",
        "STABLE",
        TENTHS,
    ),
    ("scheduler_queue_incoming_pods_total", "counter", "queue event", "STABLE", ()),
    ("scheduler_podgroup_schedule_attempts_total", "counter", "result profile", "ALPHA", ()),
    (
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "histogram",
        "result profile",
        "ALPHA",
        MILLISECONDS,
    ),
    ("scheduler_podgroup_scheduling_algorithm_duration_seconds", "histogram", "", "ALPHA", MILLISECONDS),
    ("scheduler_scheduling_algorithm_duration_seconds", "histogram", "", "ALPHA", MILLISECONDS),
    ("scheduler_pod_scheduling_sli_duration_seconds", "histogram", "attempts", "BETA", CENTISECONDS),
    (
        "scheduler_plugin_execution_duration_seconds",
        "histogram",
        "plugin extension_point status",
        "ALPHA",
        PLUGIN_SECONDS,
    ),
    ("scheduler_plugin_evaluation_total", "counter", "plugin extension_point profile", "BETA", ()),
    ("scheduler_unschedulable_pods", "gauge", "plugin profile", "BETA", ()),
    ("scheduler_permit_wait_duration_seconds", "histogram", "result", "BETA", MILLISECONDS),
    ("scheduler_resourceclaim_creates_total", "counter", "status", "ALPHA", ()),
    ("scheduler_dra_bindingconditions_allocations_total", "counter", "profile driver status", "ALPHA", ()),
    (
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "histogram",
        "profile driver status",
        "ALPHA",
        [0.1 * 2**power for power in range(14)],
    ),
    ("kuberth_configuration_reloads_total", "counter", "result", "ALPHA", ()),
    ("scheduler_batch_attempts_total", "counter", "profile result", "ALPHA", ()),
    ("kuberth_repeated_rejections_total", "counter", "profile", "ALPHA", ()),
    ("kuberth_oldest_untried_pod_seconds", "gauge", "", "ALPHA", ()),
    ("kuberth_plan_differences_total", "counter", "plugin profile", "ALPHA", ()),
    ("scheduler_goroutines", "gauge", "operation", "BETA", ()),
    ("kuberth_plans", "gauge", "profile", "ALPHA", ()),
    ("kuberth_write_limit", "gauge", "write", "ALPHA", ()),
    ("kuberth_writes_in_flight", "gauge", "write", "ALPHA", ()),
    ("scheduler_event_handling_duration_seconds", "histogram", "event", "ALPHA", TENTHS),
    (
        "scheduler_queueing_hint_execution_duration_seconds",
        "histogram",
        "plugin event hint",
        "ALPHA",
        PLUGIN_SECONDS,
    ),
    ("scheduler_inflight_events", "gauge", "event", "ALPHA", ()),
    ("scheduler_pod_scheduled_after_flush_total", "counter", "", "ALPHA", ()),
    ("scheduler_cache_size", "gauge", "type", "ALPHA", ()),
    ("scheduler_preemption_goroutines_duration_seconds", "histogram", "result", "ALPHA", CENTISECONDS),
    ("scheduler_preemption_goroutines_execution_total", "counter", "result", "ALPHA", ()),
    ("scheduler_async_api_call_execution_total", "counter", "call_type result", "ALPHA", ()),
    (
        "scheduler_async_api_call_execution_duration_seconds",
        "histogram",
        "call_type result",
        "ALPHA",
        MILLISECONDS,
    ),
    ("scheduler_pending_async_api_calls", "gauge", "call_type", "ALPHA", ()),
    ("scheduler_volume_scheduling_stage_error_total", "counter", "operation", "ALPHA", ()),
    ("rest_client_requests_total", "counter", "code method host", "ALPHA", ()),
    ("rest_client_request_retries_total", "counter", "code verb host", "ALPHA", ()),
    ("rest_client_request_duration_seconds", "histogram", "verb host", "ALPHA", REQUEST_SECONDS),
    ("rest_client_rate_limiter_duration_seconds", "histogram", "verb host", "ALPHA", REQUEST_SECONDS),
    ("rest_client_request_size_bytes", "histogram", "verb host", "ALPHA", REQUEST_BYTES),
    ("rest_client_response_size_bytes", "histogram", "verb host", "ALPHA", REQUEST_BYTES),
    ("leader_election_master_status", "gauge", "name", "ALPHA", ()),
    ("leader_election_slowpath_total", "counter", "name", "ALPHA", ()),
    ("kubernetes_healthcheck", "gauge", "name type", "STABLE", ()),
    ("kubernetes_healthchecks_total", "counter", "name type status", "STABLE", ()),
]


def every_family() -> dict[str, Family]:
    scheduler = SchedulerMetrics()
    scheduler.groups = PodGroupMetrics()
    groups = (scheduler, ClientMetrics(), LeaderElectionMetrics(), HealthMetrics())
    return {family.name: family for group in groups for family in group.families()}


@pytest.mark.parametrize("name, kind, labels, stability, buckets", FACTS, ids=[fact[0] for fact in FACTS])
def test_family(name: str, kind: str, labels: str, stability: str, buckets: Sequence[float]) -> None:
    family = every_family()[name]
    assert (family.kind, family.labels, family.stability) == (kind, tuple(labels.split()), stability)
    assert list(family.buckets if isinstance(family, Histogram) else ()) == list(buckets)
    assert family.help


def test_there_is_no_family_without_a_fact() -> None:
    assert set(every_family()) == {fact[0] for fact in FACTS}


def test_buckets_are_multiplied_step_by_step() -> None:
    assert exponential_buckets(0.00001, 1.5, 20) == PLUGIN_SECONDS
    assert exponential_buckets(3, 2, 1) == [3]


def test_health_results() -> None:
    health = HealthMetrics()
    for healthy in (True, False, False):
        health.observe("ping", "readyz", healthy=healthy)
    assert health.last.values == {("ping", "readyz"): 0}
    assert health.total.values == {("ping", "readyz", "success"): 1, ("ping", "readyz", "error"): 2}


def test_a_family_of_a_plugin_is_served_and_survives_a_reload() -> None:
    metrics = SchedulerMetrics()
    first = metrics.add(Counter("example_refusals_total", "Refusals.", ("team",)))
    first.inc(("a",))
    again = metrics.add(Counter("example_refusals_total", "Refusals.", ("team",)))
    assert again is first
    assert first in list(metrics.families())


@pytest.mark.parametrize(
    "family",
    [
        Counter("scheduler_pending_pods", "Another.", ("queue",)),
        Counter("example_total", "Other labels.", ("a", "b")),
        Gauge("example_total", "Another type.", ("a",)),
    ],
    ids=["ours", "labels", "type"],
)
def test_a_name_that_is_taken_is_an_error(family: Counter) -> None:
    metrics = SchedulerMetrics()
    metrics.add(Counter("example_total", "Mine.", ("a",)))
    with pytest.raises(ValueError, match="exists already"):
        metrics.add(family)
