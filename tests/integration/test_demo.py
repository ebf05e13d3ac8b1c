"""The tour of `kuberth demo` is played to its end, and shows what it says."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

import pytest
from hack.animation import recorded

from kuberth.cli.demo import demo
from kuberth.errors import KuberthError
from kuberth.programs.demo import playing
from kuberth.programs.demo.playing import SCENES, Scene, TourStep


def test_the_tour() -> None:
    command = [sys.executable, "-m", "kuberth", "demo", "--pause", "0"]
    played = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert played.returncode == 0, played.stdout + played.stderr
    text = played.stdout
    assert re.findall(r"^# (.*)$", text, re.MULTILINE) == [
        *(scene.title for scene in SCENES),
        "That was the tour",
    ]
    results = re.findall(r"^→ (.*)$", text, re.MULTILINE)
    assert results[0] == "6 pods run: 2 in zone a, 2 in zone b, 2 in zone c"
    assert re.search(r"urgent runs on \S+; batch pods of lower priority gave way, and [1-9]\d* wait", text)
    assert "all 3 run" in text
    assert "database runs on ssd-1" in text
    assert results[-1].startswith("0/4 nodes are available: 4 Insufficient cpu.")
    assert "What would help (each was tested)" in text
    assert "#token=" not in text, "the output is no terminal"
    assert played.stderr == ""
    assert lines_of(text.splitlines()) == lines_of(
        [line.text for line in recorded() if line.style != "code"]
    ), "the README shows another tour: run `make animation`"


def test_the_pauses_add_up_to_two_minutes() -> None:
    """As the README says; what happens in the scenes takes seconds."""
    pauses = sum(1 + (len(scene.steps) - 1) / 2 for scene in SCENES)
    seconds = demo.make_context("demo", []).params["pause"]
    assert 100 <= pauses * seconds <= 130


def lines_of(printed: list[str]) -> str:
    """Titles, commands and results without blanks: the recording has no page, lines are wrapped there, and
    nodes and numbers differ from one tour to the next."""
    text = "".join(line for line in printed if not line.startswith(("  ", "Watch it in a browser")))
    return re.sub(r"(plain|ssd)-\d|\d+", "…", text.replace(" ", ""))


def test_a_step_without_effect_ends_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "PATIENCE_SECONDS", 0.2)
    scene = Scene("Nothing", "", [TourStep("kubectl get pods", expected={"missing": {"placed": 1}})])
    lines: list[str] = []

    async def play() -> None:
        await playing.play(
            lambda _style, line: lines.append(line), pause_seconds=0.1, page=False, scenes=[scene]
        )

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(play())
    assert caught.group_contains(KuberthError, match="`kubectl get pods` had no effect")
    assert lines[1:3] == ["1 scene, 0.1 seconds apart (--pause).", "Nothing"]
