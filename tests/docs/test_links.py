"""No link of the documentation leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links

INDEX = Path("docs/README.md")
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


def test_the_index_names_every_page() -> None:
    named = {(Path("docs") / link.partition("#")[0]).as_posix() for link in links(INDEX)}
    pages = {page.as_posix() for page in PAGES if page.parts[0] == "docs" and page.parts[1] != "adr"}
    assert pages - named - {INDEX.as_posix()} == set()
