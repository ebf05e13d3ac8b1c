"""A few histories of the local API server, with kills and disk faults."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from tests.histories.__main__ import play_control, play_one
from tests.histories.targets import Launcher

SEEDS = range(1, 9)


def test_histories_break_no_promise() -> None:
    async def main() -> dict[int, list[str]]:
        with tempfile.TemporaryDirectory() as name:
            async with Launcher(Path(name)) as launcher:
                found = {seed: await play_one(launcher, Path(name), seed) for seed in SEEDS}
        assert all(history.calls and history.faults for history, _ in found.values())
        return {seed: [str(each) for each in broken] for seed, (_, broken) in found.items() if broken}

    assert asyncio.run(main()) == {}


@pytest.mark.e2e
def test_the_control_breaks_no_promise() -> None:
    assert asyncio.run(play_control(range(1, 3))) == 0
