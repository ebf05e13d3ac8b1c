from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.node_order import NodeOrder
from kuberth.framework.status import Status
from kuberth.scheduling.sampling import EveryNode, Sampler, nodes_to_find


@pytest.mark.parametrize(
    "total, percentage, enough",
    [
        pytest.param(0, None, 0, id="no-nodes"),
        pytest.param(10, None, 10, id="few-nodes"),
        pytest.param(99, 30, 99, id="never-fewer-than-a-hundred"),
        pytest.param(100, None, 100, id="a-hundred"),
        pytest.param(250, None, 120, id="48-percent-of-250"),
        pytest.param(1000, None, 420, id="42-percent-of-1000"),
        pytest.param(5000, None, 500, id="10-percent-of-5000"),
        pytest.param(5624, None, 337, id="6-percent-just-below-the-floor"),
        pytest.param(5625, None, 281, id="5-percent-at-the-floor"),
        pytest.param(6000, None, 300, id="5-percent-of-6000"),
        pytest.param(100_000, None, 5000, id="never-less-than-5-percent"),
        pytest.param(1000, 0, 420, id="zero-means-adaptive"),
        pytest.param(1000, 40, 400, id="as-configured"),
        pytest.param(1000, 1, 100, id="a-hundred-at-least"),
        pytest.param(6000, 1, 100, id="configured-below-5-percent"),
        pytest.param(6000, 2, 120, id="2-percent"),
        pytest.param(1000, 100, 1000, id="all"),
        pytest.param(101, 99, 100, id="rounds-down"),
    ],
)
def test_how_many_nodes_are_enough(total: int, percentage: int | None, enough: int) -> None:
    assert nodes_to_find(total, percentage) == enough


def chosen(
    sampler: Sampler | EveryNode, passing: str, enough: int, order: list[int] | None = None
) -> tuple[list[int], int]:
    mask = np.array([letter == "x" for letter in passing], np.bool_)
    rows = np.array(range(len(passing)) if order is None else order, np.int64)
    walk = NodeOrder(rows, len(passing))
    answer = sampler.choose(walk, enough, lambda stretch: mask[walk.twice[stretch]], nodes=len(rows))
    assert not isinstance(answer, Status)
    places, evaluated = answer
    return walk.twice[places].tolist(), evaluated


def test_the_search_ends_when_enough_are_found_and_goes_on_there() -> None:
    sampler = Sampler()
    assert chosen(sampler, "xxxxxxx", 3) == ([0, 1, 2], 3)
    assert chosen(sampler, "xxxxxxx", 3) == ([3, 4, 5], 3)
    assert chosen(sampler, "xxxxxxx", 3) == ([6, 0, 1], 3)


def test_every_node_returns_all_feasible_nodes_each_time() -> None:
    every = EveryNode()
    for _ in range(2):
        assert chosen(every, "x.xxx", 1) == ([0, 2, 3, 4], 5)


def test_nodes_that_do_not_pass_are_looked_at_too() -> None:
    sampler = Sampler()
    assert chosen(sampler, ".x.xx.x", 2) == ([1, 3], 4)
    # And so are those between the last that was wanted and the next that passes.
    assert chosen(sampler, ".x.xx.x", 2) == ([4, 6], 4)
    assert chosen(sampler, ".x.xx.x", 2) == ([1, 3], 3)


def test_the_start_goes_round_among_all_nodes_whatever_a_search_is_narrowed_to() -> None:
    sampler = Sampler()
    few = NodeOrder(np.array([5, 2, 7]), 8)
    for expected in (3, 6, 1):
        assert sampler.choose(few, 3, lambda _stretch: np.ones(3, np.bool_), nodes=8)
        assert sampler.position == expected


@pytest.mark.parametrize(
    "passing, found", [("xx..", [0, 1]), ("x...", [0]), ("....", [])], ids=["just-enough", "too-few", "none"]
)
def test_without_more_than_enough_all_are_looked_at_and_the_start_stays(
    passing: str, found: list[int]
) -> None:
    sampler = Sampler()
    for _ in range(2):
        assert chosen(sampler, passing, 2) == (found, 4)


def test_nodes_are_tried_in_the_order_given() -> None:
    sampler = Sampler()
    order = [4, 2, 0, 1]  # row 3 is a gap
    assert chosen(sampler, "xxx.x", 2, order) == ([4, 2], 2)
    assert chosen(sampler, "xxx.x", 2, order) == ([0, 1], 2)


def test_the_start_fits_a_cluster_that_shrank() -> None:
    sampler = Sampler()
    chosen(sampler, "x" * 10, 7)
    assert chosen(sampler, "xxx", 1) == ([1], 1)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 10))
def test_every_passing_node_gets_its_turn(passing: list[bool], enough: int) -> None:
    sampler = Sampler()
    text = "".join("x" if each else "." for each in passing)
    seen: set[int] = set()
    for _ in passing:
        found, evaluated = chosen(sampler, text, enough)
        assert len(found) == min(enough, text.count("x"))
        assert len(found) <= evaluated <= len(passing)
        assert all(passing[position] for position in found)
        seen.update(found)
    assert seen == {position for position, each in enumerate(passing) if each}
