"""Text in Prometheus' format → samples; the inverse of `exposition`.

In: the text of /metrics, of any program. Out: the samples of the families that the caller names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)")
_LABEL: Final = re.compile(r'(\w+)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")


class MetricSample(NamedTuple):
    """A line of the text."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_samples(text: str, families: Collection[str]) -> Iterator[MetricSample]:
    """Samples whose names start with one of these; other lines, of which there are thousands, are skipped."""
    starts = tuple(families)
    for line in text.split("\n"):
        if line.startswith(starts) and (found := _SAMPLE.match(line)):
            labels = {
                label: _ESCAPE.sub(_unescaped, value) for label, value in _LABEL.findall(found[2] or "")
            }
            yield MetricSample(found[1], labels, float(found[3]))


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
