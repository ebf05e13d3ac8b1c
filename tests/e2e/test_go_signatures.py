"""Signatures of Go's framework in the documentation are those of the sources that `make envtest` fetches."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, blocks, prose
from tests.e2e.assets import cache_folder

pytestmark = pytest.mark.e2e

FRAMEWORK = ("interface.go", "types.go", "listers.go", "cycle_state.go")
TYPES = re.compile(
    r"\b(?:Context|Status|Pod|NodeInfo|PodInfo|QueuedPodInfo|StateKey|StateData|string|bool|UID)\b"
)
NAMING = [page for page in PAGES if "extension-points" in page.parts or page.stem == "migrate-go-plugin"]


@pytest.fixture(scope="module")
def sources() -> str:
    """The framework's interfaces, without comments, in one line."""
    try:
        asked = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    except OSError:
        pytest.skip("no Go")
    modules = Path(asked.stdout.strip(), "k8s.io")
    version = cache_folder().name
    files = [
        *(modules / f"kube-scheduler@v0{version[2:]}" / "framework" / name for name in FRAMEWORK),
        modules / f"kubernetes@{version}" / "pkg/scheduler/framework/runtime/registry.go",
    ]
    if not all(file.exists() for file in files):
        pytest.skip("no sources of Kubernetes: run `make envtest`")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    return re.sub(r"\s+", " ", re.sub(r"//.*", "", text))


def signatures(page: Path) -> list[str]:
    """Code with the parameters and results of a Go function."""
    text = re.sub(r"\s+", " ", "\n".join(prose(page)))
    spans = re.findall(r"`([^`]+)`", text.partition("## In Go")[2] or text)
    return [span for span in spans if re.match(r"[A-Z]\w+(?: = func| func)?\(", span) and TYPES.search(span)]


@pytest.mark.parametrize("page", NAMING, ids=str)
def test_signatures_are_those_of_the_sources(page: Path, sources: str) -> None:
    assert [each for each in signatures(page) if f" {each}" not in sources] == []


def test_go_code_has_the_signatures_of_the_sources(sources: str) -> None:
    text = "".join(each.text for page in NAMING for each in blocks(page) if each.language == "go")
    found = re.findall(r"^func (?:\(.+?\) |New)(.+) \{$", text, re.MULTILINE)
    assert len(found) == 3
    plain = sources.replace("fwk.", "")
    assert [each for each in found if each.replace("fwk.", "") not in plain] == []


def test_signatures_are_found() -> None:
    assert len(signatures(Path("docs/migrate-go-plugin.md"))) >= 30
    assert all(signatures(page) for page in NAMING if page.name not in ("README.md", "migrate-go-plugin.md"))
