"""Node shapes from lists and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kuberth.errors import ConfigError
from kuberth.local.hollow.shapes import load_shapes, make_nodes


def test_a_file_of_shapes(tmp_path: Path) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text(
        """
- name: big
  count: 2
  labels: {pool: big}
  capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}
  allocatable: {cpu: 63500m}
  taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
- name: small
  zones: []
- name: other
""",
        encoding="utf-8",
    )
    nodes = list(make_nodes(load_shapes(path, count=7), now="2024-01-01T00:00:00Z"))
    assert [node["metadata"]["name"] for node in nodes] == [
        *("big-1", "big-2"),
        *("small-1", "small-2", "small-3"),
        *("other-1", "other-2"),
    ]
    big, small = nodes[0], nodes[2]
    assert big["status"]["capacity"]["cpu"] == "64"
    assert big["status"]["allocatable"] == {**big["status"]["capacity"], "cpu": "63500m"}
    assert big["status"]["capacity"]["pods"] == "110"
    assert big["spec"]["taints"] == [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    assert big["metadata"]["labels"]["pool"] == "big"
    assert "topology.kubernetes.io/zone" not in small["metadata"]["labels"]


def test_without_shapes_there_is_the_default_one() -> None:
    assert load_shapes(None, count=0) == []
    (shape,) = load_shapes(None, count=5)
    assert (shape.name, shape.count, shape.capacity["memory"]) == ("node", 5, "32Gi")


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("text", "expected a list"),
        ([1], "expected a mapping"),
        ([{"nmae": "x"}], r'shape\[0\]\.nmae: unknown field; did you mean "name"'),
        ([{"colour": "red"}], "colour: unknown field; known are name, count, labels"),
        ([{"count": -1}], "count: expected an integer >= 0, got -1"),
        ([{"count": "3"}], "count: expected an integer"),
        ([{"labels": []}], "labels: expected a mapping"),
        ([{"capacity": {"cpu": "many"}}], "capacity.cpu"),
        ([{"capacity": {"cpu": "-4"}}], "capacity.cpu: must not be negative, got -4"),
        ([{"taints": {}}], "taints: expected a list"),
        ([{"zones": "a"}], "zones: expected a list"),
        ([{"name": "x"}, {"name": "x"}], "more than one shape is called x"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_problems_are_reported(tree: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_shapes(tree, count=1)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read node shapes"):
        load_shapes(tmp_path / "none.yaml", count=1)
