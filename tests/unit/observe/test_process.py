"""Figures of the process agree with those of Prometheus' own library."""

from __future__ import annotations

import sys

import pytest
from prometheus_client import PlatformCollector, ProcessCollector

from kuberth.observe.metrics import ComputedGauge, Counter
from kuberth.observe.process import process_families


@pytest.mark.skipif(sys.platform != "linux", reason="the figures come from /proc")
def test_names_help_kinds_labels_and_values() -> None:
    own = {family.name: family for family in process_families()}
    samples = [
        (metric, sample)
        for collector in (ProcessCollector(registry=None), PlatformCollector(registry=None))
        for metric in collector.collect()
        for sample in metric.samples
    ]
    assert set(own) == {sample.name for _, sample in samples}
    for metric, sample in samples:
        family = own[sample.name]
        assert isinstance(family, Counter | ComputedGauge)
        assert (family.kind, family.help, family.labels) == (
            metric.type,
            metric.documentation,
            tuple(sample.labels),
        )
        values = {tuple(sample.labels.values()): pytest.approx(sample.value, rel=0.1, abs=2)}
        assert family.values == values
