"""A scheduler's histograms between two moments, and their quantiles.

In: the text of /metrics, twice. Out: average and quantiles of the observations in between, as Kubernetes'
own tests compute them: buckets of all matching label values added up, and inside a bucket a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from kuberth.bench.cases import LabelValues
from kuberth.bench.throughput import PERCENTILES, Distribution
from kuberth.observe.reading import read_samples

Key = frozenset[tuple[str, str]]


@dataclass(slots=True)
class _Observed:
    sum: float = 0.0
    count: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)
    """How many were not above each bound."""


class HistogramReading:
    """Some histograms at one moment."""

    def __init__(self, text: str = "", names: Iterable[str] = ()) -> None:
        self._found: dict[str, dict[Key, _Observed]] = {name: {} for name in names}
        for sample in read_samples(text, self._found):
            name, _, part = sample.name.rpartition("_")
            family = self._found.get(name)
            if family is None:
                continue
            labels = {label: value for label, value in sample.labels.items() if label != "le"}
            observed = family.setdefault(frozenset(labels.items()), _Observed())
            if part == "bucket":
                observed.buckets[float(sample.labels["le"])] = sample.value
            elif part in ("sum", "count"):
                setattr(observed, part, sample.value)

    def between(self, earlier: HistogramReading, name: str, labels: Mapping[str, str]) -> Observations:
        """What came since then, of all combinations of label values that have these."""
        total, count = 0.0, 0.0
        buckets: dict[float, float] = {}
        wanted = set(labels.items())
        for key, observed in self._found.get(name, {}).items():
            if not wanted <= key:
                continue
            before = earlier._found.get(name, {}).get(key, _Observed())
            total += observed.sum - before.sum
            count += observed.count - before.count
            for bound, number in observed.buckets.items():
                buckets[bound] = buckets.get(bound, 0.0) + number - before.buckets.get(bound, 0.0)
        return Observations(total, count, sorted(buckets.items()))

    def label_values(self, name: str, labels: Sequence[str]) -> list[dict[str, str]]:
        """Every combination of these labels' values that was observed."""
        found = {
            tuple((label, value) for label, value in sorted(key) if label in labels)
            for key in self._found.get(name, {})
        }
        return [dict(pairs) for pairs in sorted(found)]


@dataclass(frozen=True, slots=True)
class Observations:
    """`buckets`: upper bounds, and how many were not above each."""

    sum: float
    count: float
    buckets: Sequence[tuple[float, float]]

    def summary(self, *, factor: float = 1.0) -> Distribution | None:
        """None if nothing was observed."""
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
            return below  # all that is known of it
        return below + (bound - below) * ((rank - fewer) / (number - fewer))


def combinations(labels: Sequence[LabelValues] | None) -> Iterator[dict[str, str]]:
    """Every choice of one value a label; without labels the one that chooses nothing."""
    names = [each.label for each in labels or ()]
    for values in product(*(each.values for each in labels or ())):
        yield dict(zip(names, values, strict=True))
