"""Many runs, wherever they are played."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from kuberth.errors import ConfigError
from kuberth.simulation.running import Scenario, simulate
from kuberth.simulation.sweeping import comparable, run_all
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


def interrupted_after(runs: int) -> Callable[[int], None]:
    def on_finished(done: int) -> None:
        if done == runs:
            raise KeyboardInterrupt

    return on_finished


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(1, {"few": [1]}), (2, {"few": [1], "many": [1]}), (3, {"few": [1], "many": [1]})],
)
def test_an_interrupt_leaves_what_can_be_compared(runs: int, expected: dict[str, list[int]]) -> None:
    found = run_all(VARIANTS, [1, 2], processes=1, on_finished=interrupted_after(runs))
    assert {name: [each.seed for each in outcomes] for name, outcomes in found.items()} == expected


def test_a_run_that_was_interrupted_stands_alone_or_not_at_all() -> None:
    whole = simulate(small(1, nodes=1), seed=1)
    part = msgspec.structs.replace(whole, interrupted=True)
    assert comparable({"a": [part], "b": []}) == {"a": [part]}
    assert comparable({"a": [whole], "b": [part]}) == {"a": [whole]}
    assert comparable({"a": [whole, part], "b": [whole]}) == {"a": [whole], "b": [whole]}


def test_dask_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"kuberth\[dask\]"):
        run_all(VARIANTS, [1], dask="tcp://127.0.0.1:1")


def test_runs_on_dask_are_those_of_one_process() -> None:
    distributed = pytest.importorskip("distributed")
    settings = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(protocol="tcp", host="127.0.0.1", **settings) as cluster:
        found = run_all(VARIANTS, [1, 2], dask=cluster.scheduler_address)
    assert msgspec.json.encode(found) == msgspec.json.encode(run_all(VARIANTS, [1, 2], processes=1))
