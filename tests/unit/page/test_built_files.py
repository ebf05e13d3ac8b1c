"""The page as it ships: small, complete, nothing that its strict headers forbid, nothing that calls out."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

BUILT = files("kuberth") / "page"
SOURCES = Path(__file__).parents[3] / "page" / "src"
NAMES = ("app.css", "app.js", "index.html")
LARGEST = 150_000
# Names of languages, which are not addresses: no browser asks for them.
NAMESPACES = {
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xhtml",
    "http://www.w3.org/2000/svg",
}


def text_of(name: str) -> str:
    return (BUILT / name).read_text(encoding="utf-8")


def test_the_whole_page_is_in_the_package_and_small() -> None:
    assert sorted(file.name for file in BUILT.iterdir() if file.is_file()) == list(NAMES)
    assert sum(len(text_of(name).encode()) for name in NAMES) < LARGEST


def test_it_refers_to_nothing_elsewhere() -> None:
    for name in NAMES:
        addresses = set(re.findall(r"\b(?:https?|wss?)://[^\s\"'`)<>]*", text_of(name)))
        assert {one.rstrip("\\") for one in addresses} <= NAMESPACES, name
        assert not re.search(r"[\"'(]//[a-z0-9]", text_of(name)), name


class Tags(HTMLParser):
    """What an HTML page does by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        if tag == "script":
            self.scripts.append(given.get("src"))
        elif tag in ("style", "base", "form", "iframe", "object", "embed"):
            self.inline.append(tag)


def test_it_keeps_to_a_strict_content_security_policy() -> None:
    page = Tags()
    page.feed(text_of("index.html"))
    assert page.scripts == ["app.js"]
    assert page.inline == []
    assert not re.search(r"\beval\(|\bnew Function\b|\bFunction\(|document\.write", text_of("app.js"))
    assert not re.search(r"@import|url\(", text_of("app.css"))


def test_what_the_cluster_says_is_shown_as_text_alone() -> None:
    sources = [file for pattern in ("*.ts", "*.tsx") for file in SOURCES.rglob(pattern)]
    assert len(sources) > 20
    for file in sources:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment",
            file.read_text(encoding="utf-8"),
            re.IGNORECASE,
        ), file
