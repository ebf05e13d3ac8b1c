"""Samples are read as Prometheus' own parser reads them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kuberth.observe.exposition import render
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.observe.reading import read_samples

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"))


@given(st.dictionaries(TEXTS, st.floats(0, 1e9), max_size=4))
def test_as_prometheus_parser_reads(values: dict[str, float]) -> None:
    metrics = SchedulerMetrics()
    for label, value in values.items():
        metrics.schedule_attempts.inc((label, "p"), value)
        metrics.permit_wait_duration.observe((label,), value)
    text = "".join(render(metrics.families()))
    names = ("scheduler_schedule_attempts_total", "scheduler_permit_wait_duration_seconds")
    expected = [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(names)
    ]
    assert [tuple(sample) for sample in read_samples(text, names)] == expected


def test_lines_of_other_programs() -> None:
    text = '# HELP a_b B.\na_b 1\na_c{x="1", y = "}",} 2.5e3 1700000000\nb 3\na_d NaN\n'
    names = [(sample.name, dict(sample.labels)) for sample in read_samples(text, ["a_"])]
    assert names == [("a_b", {}), ("a_c", {"x": "1", "y": "}"}), ("a_d", {})]
