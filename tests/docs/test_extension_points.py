"""Every extension point has a page, in one form, with the figures of the performance page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kuberth.framework.extension_points import EXTENSION_POINTS, EnqueueExtensions, ExtensionPoint
from tests.docs.pages import ROOT, blocks, prose, table

FOLDER = Path("docs/extension-points")
POINTS = EXTENSION_POINTS
MEASURED = [point for point in POINTS if not point.key.startswith("placement")]
HEADINGS = ["What it may do", "What it costs", "Example", "In Go"]
SHARES = {row[0].partition(",")[0]: row[1] for row in table(Path("docs/performance.md"), "A plugin's share")}
EVENTS = ExtensionPoint("events", EnqueueExtensions, frozenset())


def page_of(point: ExtensionPoint) -> Path:
    return FOLDER / f"{re.sub('([A-Z])', lambda found: '-' + found[0].lower(), point.key)}.md"


@pytest.mark.parametrize("point", [*POINTS, EVENTS], ids=lambda point: point.key)
def test_its_page_says_when_what_and_how_much(point: ExtensionPoint) -> None:
    page = page_of(point)
    text = "\n".join(prose(page))
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    go = text.partition("## In Go")[2]
    assert f"`{point.interface.__name__}`" in go
    (example,) = [block.text for block in blocks(page) if block.language == "python"]
    assert re.search(rf"^class \w+\(.*\b{point.interface.__name__}\b.*\):$", example, re.MULTILINE)
    assert "run_in_virtual_time(" in example
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) < 100, "two screens"


def test_pages_repeat_the_figures_of_the_performance_page() -> None:
    assert SHARES.keys() == {point.label for point in MEASURED} - {"QueueSort"}
    for point in POINTS:
        if figure := SHARES.get(point.label):
            costs = (
                "\n".join(prose(page_of(point))).partition("## What it costs")[2].partition("## Example")[0]
            )
            assert f"{figure} µs" in costs, page_of(point)


def test_the_overview_names_every_point() -> None:
    rows = table(FOLDER / "README.md", "Extension points")
    named = [re.findall(r"\((.*?)\)", row[0])[0] for row in rows]
    assert named == [page_of(point).name for point in (*POINTS, EVENTS)]
    assert [row[1] for row in rows] == [f"`{point.interface.__name__}`" for point in (*POINTS, EVENTS)]
