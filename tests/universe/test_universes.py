from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from tests.universe import books, claims, gangs, judging, rules, trees
from tests.universe.__main__ import main
from tests.universe.drawing import draw
from tests.universe.faults import PLANTED, Planted
from tests.universe.judging import judge
from tests.universe.parts import Universe
from tests.universe.planted import SOURCE, planted
from tests.universe.playing import Replica, digest, play
from tests.universe.shrinking import shrink

SEEDS = range(1, 17)
JUDGES = {f"tests.universe.{name}" for name in ("books", "claims", "gangs", "judging", "rules", "trees")}


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, 8))
def test_universes_break_no_rule(first: int) -> None:
    broken = {seed: found for seed in range(first, first + 8) if (found := judge(play(draw(seed))))}
    assert not broken


def test_a_universe_has_one_story() -> None:
    assert digest(play(draw(7))) == digest(play(draw(7)))


def test_a_story_does_not_depend_on_the_process() -> None:
    code = (
        "from tests.universe.playing import *; from tests.universe.drawing import draw;"
        "print([digest(play(draw(seed))) for seed in (5, 6)])"
    )
    stories = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert stories == {f"{[digest(play(draw(seed))) for seed in (5, 6)]}\n"}


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a defect: every third pod that is placed is forgotten at once."""
    assume, placed = ClusterTable.assume_pod, [0]

    def assume_some(self: ClusterTable, info: PodInfo) -> None:
        assume(self, info)
        placed[0] += 1
        if placed[0] % 3 == 0:
            self.forget_pod(info.uid)

    monkeypatch.setattr(ClusterTable, "assume_pod", assume_some)
    monkeypatch.setattr("tests.universe.playing.Replica.__init__", _fresh(placed))


def _fresh(placed: list[int]) -> Callable[..., None]:
    make = Replica.__init__

    def init(self: Replica, *args: Any) -> None:
        placed[0] = 0
        make(self, *args)

    return init


@pytest.mark.usefixtures("forgetful")
def test_a_planted_defect_is_found_replays_and_is_reduced() -> None:
    seed = next(seed for seed in SEEDS if len(draw(seed).steps) > 40 and judge(play(draw(seed))))
    universe = draw(seed)
    first, again = play(universe), play(universe)
    assert digest(first) == digest(again)
    rule = judge(first)[0].rule

    def still_breaks(candidate: Universe) -> bool:
        return any(each.rule == rule for each in judge(play(candidate)))

    reduced = shrink(universe, still_breaks)
    assert still_breaks(reduced)
    assert len(reduced.steps) < len(universe.steps) / 2


@pytest.mark.usefixtures("forgetful")
def test_a_broken_seed_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = next(seed for seed in SEEDS if judge(play(draw(seed))))
    monkeypatch.setattr(sys, "argv", ["universe", "--seeds", "1", "--start", str(seed)])
    assert main() == 1
    printed = capsys.readouterr().out
    assert f"seed {seed}, story " in printed
    assert "reduced:" in printed
    monkeypatch.setattr(sys, "argv", ["universe", "--replay", str(seed)])
    assert main() == 1
    assert "places " in capsys.readouterr().out


@pytest.mark.parametrize(
    "module", [books, claims, gangs, judging, rules, trees], ids=lambda module: module.__name__
)
def test_the_judge_imports_nothing_of_the_scheduler(module: ModuleType) -> None:
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert name.partition(".")[0] in sys.stdlib_module_names or name in JUDGES


@pytest.mark.parametrize(
    "message",
    (*judging.EXPECTED_LOGS, judging.SHUTTING_DOWN, judging.NOT_LEADING, judging.FAILED_PREEMPTION),
)
def test_a_message_that_the_judge_expects_still_exists(message: str) -> None:
    assert any(message in file.read_text(encoding="utf-8") for file in (SOURCE / "kuberth").rglob("*.py"))


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.what)
def test_a_planted_fault_still_finds_its_place(fault: Planted) -> None:
    source = (SOURCE / "kuberth" / fault.file).read_text(encoding="utf-8")
    changed = planted(source, fault)
    assert changed != source
    ast.parse(changed)


def test_planted_faults_differ() -> None:
    assert len({(fault.file, fault.old, fault.new) for fault in PLANTED}) == len(PLANTED)
    assert len({fault.what for fault in PLANTED}) == len(PLANTED)


def test_classes_stay_in_a_reduced_universe() -> None:
    universe = next(
        drawn for seed in range(1, 300) if (drawn := draw(seed)).objects and "volumes" in str(drawn)
    )

    def classes(drawn: Universe) -> list[str]:
        created = [step.tree for step in drawn.steps if step.verb == "create object"]
        return sorted(
            each["metadata"]["name"] for each in (*drawn.objects, *created) if "Class" in each["kind"]
        )

    reduced = shrink(universe, lambda _candidate: True)
    assert classes(reduced) == classes(universe) != []
    assert len(reduced.steps) + len(reduced.objects) == len(classes(universe))
