from __future__ import annotations

from typing import Any

import pytest

from kuberth.testing.factories import make_node
from tests.unit.plugins.harness import assert_views_agree, evaluator
from tests.unit.plugins.volume_objects import (
    HOST,
    in_zone,
    make_capacity,
    make_claim,
    make_class,
    make_csi_driver,
    make_volume,
    pod_with,
)

PLUGIN = "VolumeBinding"
GATE = {"StorageCapacityScoring": True}
LOCAL = make_class("local", provisioner="kubernetes.io/no-provisioner")


def local(name: str, size: str, host: str, *, storage_class: str = "local") -> Any:
    return make_volume(name, storage_class=storage_class, size=size, nodeAffinity=in_zone(host, key=HOST))


def capacity(name: str, size: str, host: str, *, storage_class: str = "wait") -> Any:
    return make_capacity(
        name, capacity=size, storage_class=storage_class, nodeTopology={"matchLabels": {HOST: host}}
    )


def scores(
    *objects: Any, claims: tuple[str, ...], shape: list[tuple[int, int]] | None = None
) -> dict[str, int]:
    """Of the nodes a, b and c, by their names."""
    args = None
    if shape is not None:
        args = {"shape": [{"utilization": utilization, "score": score} for utilization, score in shape]}
    judge = evaluator(PLUGIN, *(make_node(name) for name in "abc"), *objects, args=args, gates=GATE)
    pod = pod_with(*claims)
    assert_views_agree(judge, PLUGIN, pod)
    return dict(judge.evaluate(pod).scores[PLUGIN])


def test_no_scores_without_the_gate() -> None:
    judge = evaluator(
        PLUGIN, make_node("a"), LOCAL, make_claim("c", storage_class="local"), local("v", "9Gi", "a")
    )
    assert PLUGIN not in judge.evaluate(pod_with("c")).scores


def test_the_fuller_a_volume_would_be_the_worse_by_default() -> None:
    found = scores(
        LOCAL,
        make_claim("c", storage_class="local", size="5Gi"),
        local("v", "5Gi", "a"),
        local("w", "10Gi", "b"),
        local("x", "50Gi", "c"),
        claims=("c",),
    )
    # 100%, 50% and 10% full, on the line from 100 down to 0.
    assert found == {"a": 0, "b": 50, "c": 90}


def test_a_shape_of_ones_own() -> None:
    found = scores(
        LOCAL,
        make_claim("c", storage_class="local", size="5Gi"),
        local("v", "5Gi", "a"),
        local("w", "10Gi", "b"),
        local("x", "50Gi", "c"),
        claims=("c",),
        shape=[(0, 0), (50, 8), (100, 9)],
    )
    assert found == {"a": 90, "b": 80, "c": 16}


def test_volumes_of_a_class_are_added_up_and_classes_averaged() -> None:
    found = scores(
        LOCAL,
        make_class("other", provisioner="kubernetes.io/no-provisioner"),
        make_claim("c", storage_class="local", size="5Gi"),
        make_claim("d", storage_class="local", size="5Gi"),
        make_claim("e", storage_class="other", size="5Gi"),
        *(
            volume
            for host in "abc"
            for volume in (
                local(f"{host}1", "10Gi", host),
                local(f"{host}2", "30Gi", host),
                local(f"{host}3", "10Gi" if host == "a" else "5Gi", host, storage_class="other"),
            )
        ),
        claims=("c", "d", "e"),
    )
    # 10 of 40 gibibytes score 75; 5 of 10 score 50, 5 of 5 score 0; 62.5 and 37.5 round up.
    assert found == {"a": 63, "b": 38, "c": 38}


def test_volumes_to_be_made_share_the_capacity_of_their_class() -> None:
    found = scores(
        make_class(),
        make_csi_driver(storageCapacity=True),
        make_claim("c", size="5Gi"),
        make_claim("d", size="5Gi"),
        capacity("x", "10Gi", "a"),
        capacity("y", "40Gi", "b"),
        capacity("z", "5Gi", "c"),
        claims=("c", "d"),
    )
    # Two of five out of ten, forty, and five: the last one is overdrawn and counts as full.
    assert found == {"a": 0, "b": 75, "c": 0}


@pytest.mark.parametrize(
    "objects, claims",
    [
        pytest.param([make_class(), make_claim("c")], ("c",), id="capacity is not tracked"),
        pytest.param([make_claim("c", volume="v"), make_volume("v")], ("c",), id="bound already"),
        pytest.param([], (), id="no claims"),
    ],
)
def test_nothing_to_compare(objects: list[Any], claims: tuple[str, ...]) -> None:
    assert scores(*objects, claims=claims) == {"a": 0, "b": 0, "c": 0}


def test_volumes_that_are_there_count_alone() -> None:
    found = scores(
        make_class(),
        make_csi_driver(storageCapacity=True),
        make_claim("c", size="5Gi"),
        local("v", "10Gi", "a", storage_class="wait"),
        capacity("x", "10Gi", "a"),
        capacity("y", "50Gi", "b"),
        capacity("z", "5Gi", "c"),
        claims=("c",),
    )
    assert found == {"a": 50, "b": 90, "c": 0}
