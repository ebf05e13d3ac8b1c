"""Modules are reloaded with what they import from their folder, all or none."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kuberth.programs.fresh_modules import FreshModules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fresh_rule.py").write_text("import fresh_help\nimport json\n\ndef rule():\n    return 1\n")
    (tmp_path / "fresh_help.py").write_text("def help():\n    return 'old'\n")
    yield tmp_path
    for name in ("fresh_rule", "fresh_help"):
        sys.modules.pop(name, None)


def answers() -> tuple[int, str]:
    rule = importlib.import_module("fresh_rule")
    return rule.rule(), rule.fresh_help.help()


def test_changed_modules_are_reloaded_even_if_saved_twice_in_a_second(folder: Path) -> None:
    modules = FreshModules(["fresh_rule"])
    assert answers() == (1, "old")
    json = sys.modules["json"]
    before = asyncio.run(modules.state())
    assert asyncio.run(modules.state()) == before
    for number in (2, 3):
        (folder / "fresh_rule.py").write_text(f"import fresh_help\n\ndef rule():\n    return {number}\n")
        assert modules.reloaded(answers) == (number, "old")
    (folder / "fresh_help.py").write_text("def help():\n    return 'new'\n")
    assert asyncio.run(modules.state()) != before
    assert modules.reloaded(answers) == (3, "new")
    assert sys.modules["json"] is json


@pytest.mark.parametrize("text", ["def rule(:\n", "raise RuntimeError('at import')\n"])
def test_a_module_that_cannot_be_read_leaves_the_old_ones(folder: Path, text: str) -> None:
    modules = FreshModules(["fresh_rule"])
    assert answers() == (1, "old")
    old = {name: sys.modules[name] for name in ("fresh_rule", "fresh_help")}
    (folder / "fresh_help.py").write_text("def help():\n    return 'new'\n")
    (folder / "fresh_rule.py").write_text(f"import fresh_help\n{text}")
    with pytest.raises((SyntaxError, RuntimeError)):
        modules.reloaded(answers)
    assert {name: sys.modules[name] for name in old} == old
    assert answers() == (1, "old")


def test_a_file_that_is_gone_for_a_moment_is_no_failure(folder: Path) -> None:
    modules = FreshModules(["fresh_rule"])
    answers()
    (folder / "fresh_rule.py").unlink()
    assert asyncio.run(modules.state()) is not None


PACKAGE = {
    "__init__.py": "from fresh_package.inner.rule import rule\n",
    "words.py": "WORD = 'old'\n",
    "inner/__init__.py": "",
    "inner/rule.py": "from fresh_package.words import WORD\n\ndef rule():\n    return WORD\n",
}


@pytest.mark.parametrize("named", ["fresh_package", "fresh_package.inner.rule"])
@pytest.mark.parametrize("place", ["src", "site-packages"])
def test_a_package_is_reloaded_as_a_whole_wherever_it_is_installed(
    named: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / place
    for name, text in PACKAGE.items():
        file = folder / "fresh_package" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "fresh_neighbour.py").write_text("")
    monkeypatch.syspath_prepend(str(folder))
    modules = FreshModules([named])

    def answer() -> str:
        return str(importlib.import_module(named).rule())

    try:
        neighbour = importlib.import_module("fresh_neighbour")
        assert answer() == "old"
        before = asyncio.run(modules.state())
        (folder / "fresh_package" / "words.py").write_text("WORD = 'a new one'\n")
        assert asyncio.run(modules.state()) != before
        assert modules.reloaded(answer) == "a new one"
        assert sys.modules["fresh_neighbour"] is neighbour
    finally:
        for name in [name for name in sys.modules if name.startswith("fresh_")]:
            del sys.modules[name]
