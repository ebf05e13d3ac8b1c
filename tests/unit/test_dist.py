"""What `make dist` refuses to build, and what the build hook records."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hack.dist import NEEDED, WHEEL_LIMIT, PackageError, check_sdist, check_wheel
from hack.walkthrough import commands

ROOT = Path(__file__).parents[2]
INFO = "kuberth-0.2.0.dist-info/METADATA"
SDIST = [
    f"kuberth-0.2.0/{name}"
    for name in (
        *(
            "pyproject.toml",
            "hatch_build.py",
            "README.md",
            "LICENSE",
            "CHANGELOG.md",
            "PKG-INFO",
            ".gitignore",
        ),
        *("src/kuberth/py.typed", "src/kuberth/commit.txt"),
    )
]


def test_the_way_to_a_running_pod_is_short() -> None:
    """`make dist` walks it, and prints the seconds."""
    first, second = commands("install.md", "In one minute")
    assert (first[2], first[-1]) == ("pip install .", "kuberth up")
    assert len(first) + len(second) <= 8
    with pytest.raises(ValueError, match="no section 'Nothing'"):
        commands("install.md", "Nothing")


def test_a_complete_wheel_passes() -> None:
    check_wheel([*NEEDED, INFO], WHEEL_LIMIT - 1)


@pytest.mark.parametrize(
    "names, size, finding",
    [
        pytest.param([*NEEDED[:-1], INFO], 1, "no kuberth/page/index.html", id="without-the-page"),
        pytest.param([INFO], 1, "no kuberth/__init__.py, kuberth/py.typed", id="empty"),
        pytest.param([*NEEDED, INFO, "kuberth/tests/test_a.py"], 1, "kuberth/tests/test_a.py", id="tests"),
        pytest.param([*NEEDED, INFO, "kuberth/__pycache__/a.pyc"], 1, "a.pyc", id="bytecode"),
        pytest.param([*NEEDED, INFO, "hack/dist.py"], 1, "hack/dist.py", id="another-package"),
        pytest.param([*NEEDED, INFO], WHEEL_LIMIT, "2,000,000 bytes", id="too-large"),
    ],
)
def test_a_wrong_wheel_is_refused(names: list[str], size: int, finding: str) -> None:
    with pytest.raises(PackageError, match=finding):
        check_wheel(names, size)


def test_sdists() -> None:
    check_sdist(SDIST)
    with pytest.raises(PackageError, match=r"no hatch_build\.py"):
        check_sdist([name for name in SDIST if not name.endswith("hatch_build.py")])
    with pytest.raises(PackageError, match=r"tests/test_a\.py"):
        check_sdist([*SDIST, "kuberth-0.2.0/tests/test_a.py"])


@pytest.fixture
def build() -> dict[str, Any]:
    """The functions of hatch_build.py, whose classes need hatchling."""
    tree = ast.parse((ROOT / "hatch_build.py").read_text(encoding="utf-8"))
    tree.body = [
        part
        for part in tree.body
        if not isinstance(part, ast.ClassDef) and "hatchling" not in str(getattr(part, "module", ""))
    ]
    names: dict[str, Any] = {}
    exec(compile(tree, "hatch_build.py", "exec"), names)
    return names


@pytest.fixture
def commit(build: dict[str, Any]) -> Callable[[Path], str]:
    function: Callable[[Path], str] = build["commit"]
    return function


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#b)", "[a](https://github.com/o/r/blob/main/docs/a.md#b)"),
        ("![a](docs/a.svg)", "![a](https://raw.githubusercontent.com/o/r/main/docs/a.svg)"),
        ("[a](https://example.com) [b](#c)", "[a](https://example.com) [b](#c)"),
    ],
)
def test_links_of_the_description_work_elsewhere(build: dict[str, Any], text: str, expected: str) -> None:
    assert build["with_absolute_links"](text, "o/r") == expected


def git(folder: Path, *words: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *name, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_commit_of_a_build(
    tmp_path: Path, commit: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERTH_COMMIT", raising=False)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("one", encoding="utf-8")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    git(tmp_path, "tag", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "file").write_text("two", encoding="utf-8")
    assert commit(tmp_path) == f"{head}-dirty"
    inside = tmp_path / "unpacked"
    inside.mkdir()
    assert commit(inside) == "", "the commit of a project around an unpacked sdist is not Kuberth's"
    monkeypatch.setenv("KUBERTH_COMMIT", "f" * 40)
    assert commit(inside) == "f" * 40
    monkeypatch.setenv("KUBERTH_COMMIT", "main")
    with pytest.raises(ValueError, match="expected 40 hexadecimal digits"):
        commit(inside)
