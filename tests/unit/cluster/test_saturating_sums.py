"""Sums of requests never wrap around, and are exact again when large pods have left."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.resource_columns import SaturatingSums
from kuberth.evaluation import Evaluator
from kuberth.testing import make_node, make_pod

LIMIT = 2**63 - 1


@given(st.lists(st.integers(0, LIMIT), max_size=6))
def test_a_sum_is_exact_or_at_the_limit(amounts: list[int]) -> None:
    sums, matrix = SaturatingSums(), np.zeros((2, 3), np.int64)
    total = 0
    for amount in amounts:
        sums.add(matrix, 1, 2, amount)
        total += amount
        assert matrix.item(1, 2) == min(total, LIMIT)
    for amount in sorted(amounts, key=lambda each: each % 7):
        sums.add(matrix, 1, 2, -amount)
        total -= amount
        assert matrix.item(1, 2) == min(total, LIMIT)
    assert not matrix.any()


def test_places_do_not_mix() -> None:
    sums, matrix = SaturatingSums(), np.zeros((2, 2), np.int64)
    for _ in range(3):
        sums.add(matrix, 0, 0, LIMIT)
    sums.add(matrix, 1, 1, 5)
    sums.forget(0)
    matrix[0] = 0
    sums.add(matrix, 0, 0, 7)
    assert matrix.tolist() == [[7, 0], [0, 5]]


def test_a_node_is_not_overcommitted() -> None:
    node = make_node("n", allocatable={"ephemeral-storage": "9E", "example.com/thing": str(LIMIT)})
    large = {"ephemeral-storage": "9E", "example.com/thing": str(LIMIT)}
    placed = [make_pod(f"p{number}", requests=large, node="n") for number in range(3)]
    for request in ({"ephemeral-storage": "1Gi"}, {"example.com/thing": "1"}):
        answer = Evaluator([node, *placed]).evaluate(make_pod("p", requests=request))
        assert answer.feasible == ()
        assert "Insufficient" in answer.rejections["n"].message


def test_scores_stay_in_range() -> None:
    nodes = [make_node(name, allocatable={"ephemeral-storage": "9E"}) for name in ("a", "b")]
    placed = [make_pod(f"p{number}", requests={"memory": "9E", "cpu": "9P"}, node="a") for number in range(3)]
    answer = Evaluator([*nodes, *placed]).evaluate(make_pod("p"))
    assert all(0 <= score <= 100 for score in answer.scores["NodeResourcesFit"].values())
