"""Samples and percentiles against numbers worked out by hand."""

from __future__ import annotations

import pytest

from kuberth.bench.measurements import Distribution, ThroughputSampler, summarize
from kuberth.text.figures import percentile


def sampled(*takes: tuple[float, int]) -> ThroughputSampler:
    sampler = ThroughputSampler()
    for now, scheduled in takes:
        sampler.take(now, scheduled)
    return sampler


def test_rates_are_those_between_samples_after_the_first_with_pods() -> None:
    sampler = sampled((1, 0), (2, 0), (3, 90), (4, 190), (5, 240), (6, 300))
    assert [sample.pods_per_second for sample in sampler.samples] == [100, 50, 60]
    assert sampler.summary() == Distribution(70, 60, 100, 100, 100)


def test_an_interval_without_pods_gets_the_rate_of_the_next_with_some() -> None:
    sampler = sampled((0, 10), (1, 20), (2, 20), (3, 20), (4, 50))
    # 10 in the first second, then 30 in three: 10, 10, 10, 10.
    assert sampler.summary() == Distribution(10, 10, 10, 10, 10)
    assert [sample.at_seconds for sample in sampler.samples] == [1, 4]


def test_real_time_stamps_count_not_the_planned_ones() -> None:
    assert sampled((0, 1), (1.25, 101)).summary() == Distribution(80, 80, 80, 80, 80)


@pytest.mark.parametrize("takes", [[], [(1.0, 0)], [(1.0, 5)], [(1.0, 5), (2.0, 5)]])
def test_too_short_for_a_rate(takes: list[tuple[float, int]]) -> None:
    assert sampled(*takes).summary() is None


@pytest.mark.parametrize(
    "numbers, percent, expected",
    [
        ([1], 50, 1),
        ([1, 2], 50, 1),
        ([1, 2, 3], 50, 2),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 90, 9),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 95, 10),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 102)), 99, 100),
    ],
)
def test_percentiles_are_nearest_ranks(numbers: list[float], percent: int, expected: float) -> None:
    assert percentile(numbers, percent) == expected


def test_the_order_of_numbers_does_not_matter() -> None:
    assert summarize([30, 10, 20]) == Distribution(20, 20, 30, 30, 30)


def test_buckets_are_found_by_scheduler_perfs_names() -> None:
    found = Distribution(1, 2, 3, 4, 5)
    assert [found.bucket(name) for name in ("Average", "Perc50", "Perc90", "Perc95", "Perc99", "Perc10")] == [
        1,
        2,
        3,
        4,
        5,
        None,
    ]
