from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.quantity import parse
from kuberth.serving.metrics_pages import LIMIT, REQUEST, approximate, pod_limits, pod_resource_family
from kuberth.testing import make_pod


def containers(*limits: dict[str, str], **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{n}", "resources": {"limits": each}, **more} for n, each in enumerate(limits)]


@pytest.mark.parametrize(
    "spec, expected",
    [
        (
            {"containers": containers({"cpu": "1"}, {"cpu": "500m", "memory": "1Gi"})},
            {"cpu": 1.5, "memory": 2**30},
        ),
        (
            {
                "containers": containers({"cpu": "1"}),
                "initContainers": containers({"cpu": "3"}, {"cpu": "2"}),
            },
            {"cpu": 3},
        ),
        (
            {
                "containers": containers({"cpu": "1"}),
                "initContainers": [
                    *containers({"cpu": "2"}, restartPolicy="Always"),
                    *containers({"cpu": "4", "memory": "1"}),
                ],
            },
            {"cpu": 6, "memory": 1},
        ),
        (
            {"containers": containers({"cpu": "1"}), "overhead": {"cpu": "250m", "memory": "1Mi"}},
            {"cpu": 1.25},
        ),
        (
            {
                "containers": containers({"cpu": "1", "example.com/gpu": "1"}),
                "resources": {"limits": {"cpu": "7", "example.com/gpu": "9"}},
            },
            {"cpu": 7, "example.com/gpu": 1},
        ),
    ],
    ids=("containers add up", "init containers peak", "sidecars run on", "overhead", "pod level"),
)
def test_limits(spec: dict[str, Any], expected: dict[str, float]) -> None:
    limits = pod_limits(make_pod("p", **spec))
    assert {name: approximate(amount) for name, amount in limits.items()} == expected


def test_requests_by_pod() -> None:
    pod = make_pod(
        "web",
        cpu="1500m",
        memory="1Gi",
        requests={
            "ephemeral-storage": "1k",
            "hugepages-2Mi": "4Mi",
            "attachable-volumes-aws": "2",
            "example.com/gpu": "1",
            "zero": "0",
        },
        node="n1",
        priority=7,
        scheduler="mine",
    )
    values = pod_resource_family([pod], which=REQUEST).values
    start = ("default", "web", "n1", "mine", "7")
    assert values == {
        (*start, "cpu", "cores"): 1.5,
        (*start, "memory", "bytes"): 2**30,
        (*start, "ephemeral-storage", "bytes"): 1000,
        (*start, "hugepages-2Mi", "bytes"): 4 * 2**20,
        (*start, "attachable-volumes-aws", "integer"): 2,
        (*start, "example.com/gpu", ""): 1,
    }
    assert pod_resource_family([pod], which=LIMIT).values == {}


@pytest.mark.parametrize(
    "node, phase, counts",
    [
        ("n1", "Running", 1),
        ("", "Pending", 1),
        ("n1", "Succeeded", 0),
        ("n1", "Failed", 0),
        ("", "Failed", 1),
    ],
)
def test_pods_that_are_done_do_not_count(node: str, phase: str, counts: int) -> None:
    pod = make_pod("p", cpu="1", node=node, phase=phase)
    assert len(pod_resource_family([pod], which=REQUEST).values) == counts


@pytest.mark.parametrize(
    "text, value", [("100m", 0.1), ("1", 1.0), ("1Gi", 2.0**30), ("1e3", 1000.0), ("3u", 3e-06)]
)
def test_quantities_as_floats(text: str, value: float) -> None:
    assert approximate(parse(text)) == pytest.approx(value, rel=1e-15)
