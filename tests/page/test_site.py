"""The documentation site in a browser: readable at any width, light and dark, for everyone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, Page, expect

from tests.docs.site import build_site

pytestmark = pytest.mark.browser
DARK = ("index.html", "plugins.html", "configuration.html", "performance.html")

BROKEN_CELLS = """() => [...document.querySelectorAll(".md-typeset td, .md-typeset th")].filter((cell) => {
    const range = document.createRange(), walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const word = node.data.match(/[A-Za-z]{3,12}/);
        if (!word || node.parentElement.closest("code")) continue;
        range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) return true;
    }
    return false;
}).map((cell) => cell.textContent.slice(0, 40))"""
"""Cells of tables in which a word is broken over lines."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, pages: list[Path], scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    found = {}
    # The dark colors are looked at where most kinds of code and tables are.
    looked_at = pages if scheme == "light" else [each for each in pages if each.name in DARK]
    for each in looked_at:
        page.goto(each.as_uri())
        results = Axe().run(page)
        if results.violations_count:
            found[each.name] = [
                (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
                for each in results.response["violations"]
            ]
    assert found == {}


@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_scrolls_sideways(page: Page, pages: list[Path], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    wide = []
    for each in pages:
        page.goto(each.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(each.name)
    assert wide == []


def test_words_in_tables_stay_whole(page: Page, pages: list[Path]) -> None:
    """On a telephone a wide table scrolls; its cells do not shrink to a letter a line."""
    page.set_viewport_size({"width": 400, "height": 900})
    narrow = {}
    for each in pages:
        page.goto(each.as_uri())
        broken = page.evaluate(BROKEN_CELLS)
        if broken:
            narrow[each.name] = broken[:3]
    assert narrow == {}


def test_search_works_from_files(page: Page, pages: list[Path]) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(
        min((each for each in pages if each.name == "index.html"), key=lambda path: len(path.parts)).as_uri()
    )
    page.get_by_role("textbox", name="Search").fill("toleration")
    expect(page.locator(".md-search-result__item").first).to_be_visible()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_commands_are_copied_without_prompts(page: Page, pages: list[Path]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(next(each for each in pages if each.name == "first-plugin.html").as_uri())
    page.get_by_role("button", name="Copy to clipboard").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[:2] == [
        "kuberth plugin new quiet-nodes --points filter,score",
        "cd quiet-nodes",
    ]
