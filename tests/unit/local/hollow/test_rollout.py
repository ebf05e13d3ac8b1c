"""The arithmetic of rolling updates, as kube-controller-manager's own tests have it."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.hollow.controllers.rollout import (
    DESIRED,
    MAXIMUM,
    fenceposts,
    first_size,
    recreate_sizes,
    rolling_sizes,
    scaling_sizes,
)


def deployment(
    replicas: int, *, surge: Any = "25%", unavailable: Any = "25%", kind: str = "RollingUpdate"
) -> Obj:
    strategy: Obj = {"type": kind}
    if kind == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"metadata": {"name": "web"}, "spec": {"replicas": replicas, "strategy": strategy}}


def a_set(
    name: str, replicas: int, *, available: int | None = None, maximum: int | None = None, age: int = 0
) -> Obj:
    annotations = {} if maximum is None else {DESIRED: str(maximum), MAXIMUM: str(maximum)}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": f"2024-01-01T00:{age:02d}:00Z",
            "annotations": annotations,
        },
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": replicas if available is None else available},
    }


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 10, (3, 2)),
        ("0%", "0%", 10, (0, 1)),
        (0, 0, 10, (0, 1)),
        (2, 3, 10, (2, 3)),
        ("39%", "39%", 10, (4, 3)),
        (0, "200%", 3, (0, 3)),
        ("25%", "25%", 1, (1, 0)),
    ],
)
def test_fenceposts(surge: Any, unavailable: Any, replicas: int, expected: tuple[int, int]) -> None:
    assert fenceposts(deployment(replicas, surge=surge, unavailable=unavailable)) == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "new", "old", "sizes"),
    [
        (2, 2, a_set("new", 0), [a_set("old", 10)], {"new": 2}),
        (0, 2, a_set("new", 0), [a_set("old", 10)], {"old": 8}),
        (0, 2, a_set("new", 2, available=0), [a_set("old", 8)], {}),
        (0, 2, a_set("new", 2, available=1), [a_set("old", 8)], {"old": 7}),
        (2, 0, a_set("new", 2, available=0), [a_set("old", 10)], {}),
        (2, 0, a_set("new", 2, available=2), [a_set("old", 10)], {"old": 8}),
        (0, 2, a_set("new", 0), [a_set("old", 10, available=6)], {"old": 8}),
        (0, 2, a_set("new", 15), [], {"new": 10}),
        (0, 2, a_set("new", 10), [], {}),
    ],
)
def test_a_step_of_a_rolling_update(
    surge: int, unavailable: int, new: Obj, old: list[Obj], sizes: dict[str, int]
) -> None:
    assert rolling_sizes(deployment(10, surge=surge, unavailable=unavailable), new, old) == sizes


def test_unhealthy_pods_of_old_sets_go_first() -> None:
    old = [a_set("older", 3, available=1, age=0), a_set("old", 7, age=1)]
    sizes = rolling_sizes(deployment(10, surge=0, unavailable=4), a_set("new", 0, age=2), old)
    assert sizes == {"older": 0, "old": 6}


def test_recreate_waits_for_the_last_old_pod() -> None:
    wanted = deployment(3, kind="Recreate")
    old, new = [a_set("old", 3)], a_set("new", 0)
    assert recreate_sizes(wanted, None, old, old_pods=True) == {"old": 0}
    assert recreate_sizes(wanted, new, [a_set("old", 0)], old_pods=True) == {}
    assert recreate_sizes(wanted, new, [a_set("old", 0)], old_pods=False) == {"new": 3}


@pytest.mark.parametrize(
    ("wanted", "new", "old", "sizes"),
    [
        (12, a_set("new", 10, maximum=10), [], {"new": 12}),
        (0, a_set("new", 10, maximum=10), [], {"new": 0}),
        (
            12,
            a_set("new", 5, maximum=10, age=1),
            [a_set("old", 5, maximum=10)],
            {"new": 6, "old": 6},
        ),
        (
            5,
            a_set("new", 5, maximum=10, age=1),
            [a_set("old", 5, maximum=10)],
            {"new": 3, "old": 2},
        ),
        (
            20,
            a_set("new", 5, maximum=10, age=2),
            [a_set("old", 3, maximum=10, age=1), a_set("older", 2, maximum=10)],
            {"new": 10, "old": 6, "older": 4},
        ),
        (
            0,
            a_set("new", 3, maximum=10, age=1),
            [a_set("old", 7, maximum=10)],
            {"new": 0, "old": 0},
        ),
    ],
    ids=("one grows", "one to nothing", "evenly up", "evenly down", "three", "all to nothing"),
)
def test_scaling_by_shares(wanted: int, new: Obj, old: list[Obj], sizes: dict[str, int]) -> None:
    assert scaling_sizes(deployment(wanted, surge=0, unavailable=1), new, old) == sizes


def test_a_new_set_takes_the_replicas_that_old_ones_leave() -> None:
    assert first_size(deployment(10, surge=3, unavailable=0), [a_set("old", 10)]) == 3
    assert first_size(deployment(10, surge=0, unavailable=3), [a_set("old", 10)]) == 0
    assert first_size(deployment(10), []) == 10
