"""The documentation site is complete, asks nothing of other servers, and answers what new users ask."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.site import build_site

# What a new user asks, the page that answers it, and words of the answer.
QUESTIONS = [
    ("How do I install it?", "install.html", "pip install"),
    ("How do I get a cluster on my machine?", "local-cluster.html", "kuberth up"),
    ("How do I run it on my cluster?", "deploying.html", "kubectl apply -k"),
    ("Which settings does it take?", "configuration.html", "KubeSchedulerConfiguration"),
    ("How do I write a rule of my own?", "plugins.html", "FilterPlugin"),
    ("How do I test it?", "testing-plugins.html", "kuberth plugin check"),
    ("Why is my pod pending?", "explain.html", "kuberth explain"),
    ("What would happen if?", "simulate.html", "kuberth simulate"),
    ("Can I trust its decisions?", "conformance.html", "kube-scheduler"),
    ("Which metrics does it export?", "observability.html", "scheduler_schedule_attempts_total"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


class _Article(HTMLParser):
    """The links of a page's own text, and what the page loads from other servers."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.foreign: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "article":
            self._depth += 1
        if tag == "a" and self._depth:
            self.links.append(values.get("href") or "")
        loaded = values.get("href") if tag == "link" else values.get("src")
        if loaded and re.match(r"(https?:)?//", loaded):
            self.foreign.append(loaded)

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._depth -= 1


def article(page: Path) -> _Article:
    parser = _Article()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_every_page_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = "index" if page.name == "README.md" else page.stem
        assert (site / page.parent.relative_to(ROOT / "docs") / f"{name}.html").exists(), page


def test_nothing_is_loaded_from_other_servers(site: Path) -> None:
    assert {str(page): found for page in site.rglob("*.html") if (found := article(page).foreign)} == {}
    styles = "".join(each.read_text(encoding="utf-8") for each in site.rglob("*.css"))
    assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//[^)]*\)|@import[^;]*//", styles)


def test_links_show_titles_of_pages(site: Path) -> None:
    found = {
        str(page): re.findall(r">([\w-]+\.md)</a>", page.read_text("utf-8")) for page in site.rglob("*.html")
    }
    assert {page: names for page, names in found.items() if names} == {}
    assert ">Installing</a>" in (site / "index.html").read_text("utf-8")


@pytest.mark.parametrize("question, page, words", QUESTIONS, ids=lambda each: str(each))
def test_the_answer_is_two_clicks_from_the_landing_page(
    site: Path, question: str, page: str, words: str
) -> None:
    first = {link.partition("#")[0] for link in article(site / "index.html").links}
    second = {
        link.partition("#")[0]
        for each in first
        if (site / each).is_file()
        for link in article(site / each).links
    }
    assert page in first | second, question
    text = re.sub(r"<[^>]+>", "", (site / page).read_text(encoding="utf-8"))
    assert words in text
