"""What the documentation says about the code is so: the files and folders that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import kuberth
from tests.docs.pages import PAGES, ROOT, prose, table
from tests.e2e.test_versions import NOT_SERVED

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


def value_exists(values: object, name: str) -> bool:
    for part in name.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


def test_values_of_the_chart_exist() -> None:
    page = Path("docs/deploying.md")
    values = yaml.safe_load((ROOT / "deploy/chart/kuberth/values.yaml").read_text(encoding="utf-8"))
    named = [name for row in table(page, "With Helm") for name in _CODE.findall(row[0])]
    assert len(named) >= 15
    assert [name for name in named if not value_exists(values, name)] == []
    assert {name.partition(".")[0] for name in named} >= values.keys() - {
        "fullnameOverride",
        "imagePullSecrets",
    }


def test_tested_versions_of_kubernetes() -> None:
    rows = table(Path("docs/upgrading.md"), "Kubernetes versions")
    assert [row[0] for row in rows] == [kuberth.KUBERNETES_VERSION, *sorted(NOT_SERVED, reverse=True)]
    assert all(f"--emulated-version={row[0]}" in row[1] for row in rows[1:])
    assert {row[0] for row in rows if row[2]} == {version for version, kinds in NOT_SERVED.items() if kinds}
