"""What became free goes back to the system, once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kuberth.programs.run.allocator import (
    EVERY_SECONDS,
    MIN_FREED_BYTES,
    Allocator,
    find_allocator,
    release_memory,
)
from kuberth.testing import run_in_virtual_time


class Fake(Allocator):
    """Has this much free memory in each minute."""

    def __init__(self, free: Sequence[int]) -> None:
        self.free = free
        self.trimmed: list[int] = []

    @property
    def _minute(self) -> int:
        return int(asyncio.get_running_loop().time() / EVERY_SECONDS + 0.01)

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
        await asyncio.sleep((len(free) - 0.5) * EVERY_SECONDS)
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
