"""What the documentation site does differently from the pages in a checkout, and from its theme.

In: pages, and the built site. Out: links that show the name of a page's file show its title instead; links to
files that are not documentation become names of files; no page loads anything from another server, and screen
readers find names for everything.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

_UPWARD: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+)([^)#]*)[^)]*\)")
_NAMED: Final = re.compile(r"\[[\w-]+\.md\](?=\(([\w./-]+\.md))")
_OWN: Final = "assets/iframe-worker.js"
_CHANGES: Final = (
    # What the theme loads so that search works without a web server.
    ("https://unpkg.com/iframe-worker/shim", "{up}" + _OWN),
    # What screen readers need.
    (
        'data-md-component="search" role="dialog"',
        'data-md-component="search" role="dialog" aria-label="Search"',
    ),
    ('<input class="md-toggle"', '<input class="md-toggle" aria-hidden="true" tabindex="-1"'),
    ("<th></th>", "<td></td>"),
)

_SECTION: Final = re.compile(
    r'aria-labelledby="__nav_\w+"'
    r'( aria-expanded="\w+">\s*<label class="md-nav__title"[^>]*>\s*<span[^>]*></span>)'
    r"\s*([^<]*?)\s*</label>"
)
"""A section's list of pages. What the theme names it by is empty if the section has a first page."""


def on_page_markdown(markdown: str, page: Any, config: Any, **_more: Any) -> str:
    """Show titles of pages, and name files of the repository that the site does not have."""
    folder = Path(config.docs_dir, page.file.src_uri).parent
    depth = page.file.src_uri.count("/")

    def named(link: re.Match[str]) -> str:
        text, up, path = link.groups()
        if up.count("/") <= depth:
            return link[0]
        return f"`{path}`" if path.rstrip("/").endswith(text.strip("`/")) else f"{text} (`{path}`)"

    def titled(link: re.Match[str]) -> str:
        with (folder / link[1]).open(encoding="utf-8") as target:
            return f"[{target.readline().removeprefix('# ').strip()}]"

    return _NAMED.sub(titled, _UPWARD.sub(named, markdown))


def on_post_build(config: Any, **_more: Any) -> None:
    """Mend what the theme does."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        for old, new in _CHANGES:
            text = text.replace(old, new.replace("{up}", up))
        text = _SECTION.sub(r'aria-label="\2"\1 \2</label>', text)
        page.write_text(text, encoding="utf-8")
