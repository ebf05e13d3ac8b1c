"""The garbage collector looks at an object in one full search at most."""

from __future__ import annotations

import gc
import time
import weakref

import pytest

from kuberth.programs.collecting import (
    COLLECTED_AFTER,
    FULL_COLLECTION_SECONDS,
    collecting_in_portions,
    unfreeze_objects,
)


class Ring:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


def _looked_at() -> int:
    return sum(isinstance(each, Ring) for each in gc.get_objects())


def test_what_survives_a_full_search_is_looked_at_no_more() -> None:
    before = gc.get_threshold()
    with collecting_in_portions():
        assert gc.get_threshold() == COLLECTED_AFTER
        ring = Ring()
        gc.collect(0)
        assert _looked_at() == 1
        gc.collect()
        assert _looked_at() == 0
        del ring
        gc.collect()
        unfreeze_objects()
        assert _looked_at() == 1
        gc.collect()
        unfreeze_objects()
        assert _looked_at() == 0
        another = Ring()
        gc.collect()
    assert (_looked_at(), another.me) == (1, another)
    assert gc.get_threshold() == before
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_cycles_that_are_young_are_found() -> None:
    with collecting_in_portions():
        Ring()
        gc.collect()
    assert _looked_at() == 0


def test_one_search_looks_at_fifty_thousand_objects_at_most() -> None:
    allocations, second, third = COLLECTED_AFTER
    assert allocations * (second + 1) * (third + 1) < 50_000


def test_a_cycle_that_dies_after_it_was_frozen_is_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with collecting_in_portions():
        ring = Ring()
        gone = weakref.ref(ring)
        gc.collect()
        del ring
        gc.collect()
        assert gone() is not None, "frozen"
        now = FULL_COLLECTION_SECONDS
        gc.collect()
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize(("seconds", "next_after"), [(0.01, 300.0), (0.5, 2500.0)])
def test_everything_is_looked_at_less_often_where_that_takes_long(
    seconds: float, next_after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, step = 0.0, 0.0

    def monotonic() -> float:
        nonlocal now
        now += step
        return now

    monkeypatch.setattr(time, "monotonic", monotonic)
    with collecting_in_portions():
        now = FULL_COLLECTION_SECONDS
        gc.collect()
        step = seconds
        gc.collect()
        step = 0.0
        ring = Ring()
        gc.collect()
        gone = weakref.ref(ring)
        del ring
        ended = now
        now = ended + next_after - 1
        gc.collect()
        gc.collect()
        assert gone() is not None
        now = ended + next_after
        gc.collect()
        gc.collect()
        assert gone() is None
