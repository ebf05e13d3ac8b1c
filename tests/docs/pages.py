"""The documentation as data: its pages, and of each page the fenced blocks, headings and links.

In: the Markdown files of the project. Out: what tests run, load and follow.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hack.reference import anchor

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = tuple(
    path.relative_to(ROOT)
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
)

_FENCE: Final = re.compile(r"^(\s*)```(.*)$")
_NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->")
_FILE: Final = re.compile(r"# ([\w.-]+\.(?:py|yaml|json))")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """A fenced block. `not_run` is the reason in a comment before it why it cannot be tried."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str

    @property
    def file(self) -> str:
        """The file that the block's first line says it is; "" if it says none."""
        found = _FILE.fullmatch(self.text.partition("\n")[0].strip())
        return "" if found is None else found[1]

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    before, start, language, not_run = "", 0, "", ""
    inside: list[str] | None = None
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            if inside is not None:
                inside.append(line)
            elif line.strip():
                before = line.strip()
        elif inside is None:
            reason = _NOT_RUN.fullmatch(before)
            start, language, inside = number + 1, fence[2].strip(), []
            not_run = "" if reason is None else reason[1]
        else:
            yield Block(page, start, language, textwrap.dedent("\n".join(inside)) + "\n", not_run)
            inside = None
    assert inside is None, f"{page}: the block of line {start} has no end"


def prose(page: Path) -> Iterator[str]:
    """The page's lines outside of fenced blocks."""
    inside = False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield line


def anchors(page: Path) -> set[str]:
    """What a link can jump to: headings, the second of a name with -1 and so on."""
    found: dict[str, int] = {}
    for line in prose(page):
        if heading := re.match(r"#+ (.+)", line):
            name = anchor(heading[1])
            found[name] = found.get(name, -1) + 1
            if found[name]:
                found[f"{name}-{found[name]}"] = 0
    return set(found)


def links(page: Path) -> Iterator[str]:
    for line in prose(page):
        yield from _LINK.findall(_CODE.sub("``", line))


def table(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    rows: list[list[str]] = []
    under = False
    for line in prose(page):
        if re.match(r"#+ ", line):
            under = line.lstrip("#").strip() == heading
        elif under and line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]
