"""Text that Prometheus would read → samples; the way back of `exposition`.

In: the text of /metrics, of whatever program. Out: the samples of the families that were asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def read_samples(text: str, families: Collection[str]) -> Iterator[Sample]:
    """Samples of these families; lines of others are not even looked into, for there are thousands."""
    wanted = "\n".join(line for line in text.splitlines() if line.startswith(tuple(families)))
    for family in text_string_to_metric_families(wanted):
        yield from family.samples
