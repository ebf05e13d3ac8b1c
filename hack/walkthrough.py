"""The commands that a page of the documentation has its reader type.

In: a page, and the heading of one of its sections. Out: for each console block, the commands after `$ `.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[1] / "docs"
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: str, heading: str = "") -> list[list[str]]:
    """Of the whole page, or of one section. ValueError: there is no such section."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if heading:
        sections = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
        text = dict(zip(sections[1::2], sections[2::2], strict=True)).get(heading, "")
        if not text:
            raise ValueError(f"docs/{page} has no section {heading!r}")
    return [
        [
            line.removeprefix("$ ")
            for line in re.sub(r" *\\\n *", " ", block).splitlines()
            if line.startswith("$ ")
        ]
        for block in _BLOCK.findall(text)
    ]
