"""The pictures that are made from texts and facts are what these give, and name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hack.animation import PICTURE, lines, recorded
from hack.animation import svg as animation
from hack.badges import badge, facts
from hack.diagrams import FOLDER, svg

from kuberth.framework.extension_points import EXTENSION_POINTS
from kuberth.programs.demo.playing import SCENES
from tests.docs.pages import PAGES, links
from tests.docs.test_claims import exists

README = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
SOURCES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_picture_is_what_its_text_gives(source: Path) -> None:
    drawn = source.with_suffix(".svg").read_text(encoding="utf-8")
    assert drawn == svg(source.read_text(encoding="utf-8")), "it is out of date: run `make diagrams`"


def test_every_diagram_is_on_a_page() -> None:
    shown = {Path(link).name for page in PAGES for link in links(page)}
    assert {source.with_suffix(".svg").name for source in SOURCES} <= shown


def test_lines_boxes_arrows_and_words_are_drawn() -> None:
    picture = svg("What it shows\n\n╭ a ─╮\n│ <b>│─▶ c d\n╰────╯\n")
    assert "<title>What it shows</title>" in picture
    assert picture.count('class="box"') == 1
    assert re.findall(r">([^<>]+)</text>", picture) == ["a", "&lt;b&gt;", "c d"]
    (heads,) = re.findall(r'class="head" d="([^"]*)"', picture)
    assert heads.count("M") == 1


def test_the_architecture_names_packages_that_exist() -> None:
    text = (FOLDER / "architecture.txt").read_text(encoding="utf-8")
    named = re.findall(r"[a-z_]+/(?:[a-z_]+/|[a-z_]+\.py)?", text)
    assert len(named) >= 25
    assert [name for name in named if not exists(name)] == []


def test_the_way_of_a_pod_has_every_extension_point() -> None:
    text = (FOLDER / "extension-points.txt").read_text(encoding="utf-8")
    places = [text.find(point.label) for point in EXTENSION_POINTS if not point.key.startswith("placement")]
    assert -1 not in places


@pytest.mark.parametrize("name, value", facts().items(), ids=facts())
def test_a_badge_is_true(name: str, value: str) -> None:
    file = FOLDER / f"badge-{name}.svg"
    assert file.read_text(encoding="utf-8") == badge(name, value), "it is out of date: run `make diagrams`"
    assert re.search(rf"!\[[^]]*{re.escape(value)}\]\(docs/images/{file.name}\)", README), "as text, too"


def test_the_animation_plays_the_scenes_of_the_tour() -> None:
    shown = [line.text for line in recorded()]
    for scene in SCENES:
        expected = [f"# {scene.title}", scene.about, *(f"$ {step.command}" for step in scene.steps)]
        start = shown.index(expected[0])
        assert [each for each in shown[start:] if each in expected][: len(expected)] == expected, scene.title
    assert "docs/images/demo.svg" in README
    assert PICTURE.stat().st_size < 500_000


def test_lines_appear_one_after_the_other_and_scroll() -> None:
    printed = (
        "\x1b[1;36m# A\x1b[0m\r\n" + "\r\n".join(f"line {number}" for number in range(30)) + "\r\n" + "x" * 90
    )
    shown = list(lines(printed))
    assert [line.style for line in shown[:2]] == ["title", "text"]
    assert [len(line.text) for line in shown[-2:]] == [88, 2], "as a terminal wraps it"
    picture = animation(shown)
    curtain, roll = re.findall(r"@keyframes \w+\{(.*)\}", picture)
    assert curtain.count("translateY") == 1 + len(shown)
    assert roll.count("translateY") == 1 + len(shown) - 22
