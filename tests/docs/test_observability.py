"""The tables of metrics list what is served, no more and no less."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kuberth.config import FeatureGates
from kuberth.observe.metrics import (
    ClientMetrics,
    Family,
    HealthMetrics,
    LeaderElectionMetrics,
    SchedulerMetrics,
)
from kuberth.observe.process import build_families, process_families, task_families
from kuberth.serving.metrics_pages import LIMIT, REQUEST, feature_families, pod_resource_family
from tests.docs.pages import table

PAGE = Path("docs/observability.md")
SERVED: dict[str, list[Family]] = {
    "Metrics": [
        *SchedulerMetrics().families(),
        *ClientMetrics().families(),
        *LeaderElectionMetrics().families(),
        *feature_families(FeatureGates()),
        *build_families(),
        *process_families(),
        *task_families(),
    ],
    "Service levels": list(HealthMetrics().families()),
    "Pod resources": [pod_resource_family([], which=which) for which in (REQUEST, LIMIT)],
}


def described(families: Iterable[Family]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(family.name, family.kind, tuple(family.labels)) for family in families}


@pytest.mark.parametrize("heading", SERVED)
def test_every_family_is_in_the_table(heading: str) -> None:
    documented = {
        (name.strip("`"), kind, tuple(labels.split(", ")) if labels else ())
        for name, kind, labels, _meaning in table(PAGE, heading)
    }
    assert documented == described(SERVED[heading])


def test_every_family_has_a_meaning() -> None:
    assert all(row[3] for heading in SERVED for row in table(PAGE, heading))
