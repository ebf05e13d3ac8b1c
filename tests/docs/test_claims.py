"""What the documentation says about the code is so: the files and folders that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, prose

CLAIMING = [page for page in PAGES if page.name in ("architecture.md", "recipes.md") or "adr" in page.parts]
_CODE = re.compile(r"`([^`\s]+)`")
_PATH = re.compile(r"[\w.-]*[a-z_]\w*/[\w./-]*|[a-z_]+\.py")


def named_paths(page: Path) -> set[str]:
    """File and folder names in code spans."""
    spans = {span for line in prose(page) for span in _CODE.findall(line)}
    return {span for span in spans if _PATH.fullmatch(span) and not span.startswith("/")}


def exists(name: str) -> bool:
    homes = (ROOT, ROOT / "src", ROOT / "src/kuberth", ROOT / "tests")
    return any((home / name).exists() for home in homes) or (
        "/" not in name and any((ROOT / "src/kuberth").rglob(name))
    )


@pytest.mark.parametrize("page", CLAIMING, ids=str)
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert {name for name in named_paths(page) if not exists(name)} == set()


def test_paths_are_found() -> None:
    found = named_paths(Path("docs/architecture.md"))
    assert {"queue/sub_queues.py", "extenders/", "plugins/__init__.py"} <= found
    assert not exists("queue/ordered_room.py")
