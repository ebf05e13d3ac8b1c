"""Many runs, wherever they are played."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from kuberth.errors import ConfigError
from kuberth.simulation.running import Scenario
from kuberth.simulation.sweeping import run_all
from tests.unit.simulation.harness import crowd


def small(seed: int, *, nodes: int) -> Scenario:
    return crowd(pods=20, nodes=nodes, seed=seed)


VARIANTS = {"few": partial(small, nodes=1), "many": partial(small, nodes=5)}


def test_processes_answer_as_one_does_alone() -> None:
    done: list[int] = []
    alone = run_all(VARIANTS, [1, 2], processes=1)
    spread = run_all(VARIANTS, [1, 2], processes=2, on_finished=done.append)
    assert msgspec.json.encode(alone) == msgspec.json.encode(spread)
    assert [each.seed for each in alone["many"]] == [1, 2]
    assert done == [1, 2, 3, 4]


def test_dask_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"kuberth\[dask\]"):
        run_all(VARIANTS, [1], dask="tcp://127.0.0.1:1")
