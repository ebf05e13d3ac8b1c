"""The garbage collector looks at an object in one full search at most; what became free goes back once."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Sequence

import pytest

from kuberth.programs.memory import (
    COLLECTED_AFTER,
    FULL_COLLECTION_SECONDS,
    MIN_FREED_BYTES,
    RELEASE_SECONDS,
    Allocator,
    collecting_in_portions,
    find_allocator,
    release_memory,
    unfreeze_objects,
)
from kuberth.testing import run_in_virtual_time


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


# Memory of the C library


class Fake(Allocator):
    """Has this much free memory in each minute."""

    def __init__(self, free: Sequence[int]) -> None:
        self.free = free
        self.trimmed: list[int] = []

    @property
    def _minute(self) -> int:
        return int(asyncio.get_running_loop().time() / RELEASE_SECONDS + 0.01)

    def free_bytes(self) -> int:
        return self.free[self._minute]

    def trim(self) -> None:
        self.trimmed.append(len(self.trimmed))


@pytest.mark.parametrize(
    ("free", "times"),
    [
        pytest.param([0, MIN_FREED_BYTES, MIN_FREED_BYTES, MIN_FREED_BYTES], 0, id="little"),
        pytest.param([0, MIN_FREED_BYTES + 1, MIN_FREED_BYTES + 1, MIN_FREED_BYTES + 1], 1, id="much, once"),
        pytest.param(
            [0, MIN_FREED_BYTES + 1, 2 * MIN_FREED_BYTES + 2, 2 * MIN_FREED_BYTES + 2], 2, id="more"
        ),
        pytest.param([0, MIN_FREED_BYTES + 1, 0, MIN_FREED_BYTES + 1], 2, id="in use in between"),
        pytest.param(
            [0, MIN_FREED_BYTES + 1, MIN_FREED_BYTES, MIN_FREED_BYTES + 1], 1, id="a little in use in between"
        ),
    ],
)
def test_what_became_free_is_given_back(free: Sequence[int], times: int) -> None:
    fake = Fake(free)

    async def main() -> None:
        task = asyncio.ensure_future(release_memory(fake))
        await asyncio.sleep((len(free) - 0.5) * RELEASE_SECONDS)
        task.cancel()

    run_in_virtual_time(main)
    assert len(fake.trimmed) == times


def test_without_an_allocator_that_is_known_nothing_is_done() -> None:
    run_in_virtual_time(lambda: release_memory(None))


def test_glibc_says_how_much_is_free() -> None:
    allocator = find_allocator()
    if allocator is None:
        pytest.skip("another C library")
    blocks = [bytearray(100_000) for _ in range(400)]
    before = allocator.free_bytes()
    del blocks[:-1:2]
    assert allocator.free_bytes() - before > 10_000_000
    allocator.trim()
