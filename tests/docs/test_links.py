"""No link of the documentation leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links

ELSEWHERE = ("https://", "http://", "mailto:")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in links(page):
        if link.startswith(ELSEWHERE):
            continue
        path, _, fragment = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        leads = target.exists() and target.resolve().is_relative_to(ROOT.resolve())
        if leads and fragment:
            leads = target.suffix == ".md" and fragment in anchors(
                target.resolve().relative_to(ROOT.resolve())
            )
        if not leads:
            dead.append(link)
    assert not dead


@pytest.mark.parametrize(
    "index", [page for page in PAGES if page.name == "README.md" and len(page.parts) > 1]
)
def test_the_index_names_every_page(index: Path) -> None:
    """That of its folder, and of the first pages of folders below."""
    folder = index.parent
    named = {(ROOT / folder / link.partition("#")[0]).resolve() for link in links(index)}
    pages = {
        page
        for page in PAGES
        if page.parent == folder or (page.parent.parent == folder and page.name == "README.md")
    }
    assert {str(page) for page in pages - {index} if (ROOT / page).resolve() not in named} == set()
