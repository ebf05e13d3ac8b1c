"""What the import contracts in pyproject.toml (`lint-imports`) do not say of the tree: whose library is
whose, one name for one idea, and a map at every door."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import kuberth

SOURCE = Path(kuberth.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted(path for path in MODULES if path.name == "__init__.py" and path.read_text(encoding="utf-8"))

LIBRARIES = {
    "click": {"cli"},
    "rich": {"cli"},
    "yaml": {"text"},
    "uvicorn": {"https"},
    "cryptography": {"https"},
    "httptools": {"client"},
    "sqlite3": {"local"},
    "re2": {"cel"},
}
"""Libraries that belong to some packages and are imported nowhere else."""

SAME_NAME = {
    "Event": "the kind exists in two API groups",
    "EventSeries": "the kind exists in two API groups",
    "NodeAffinity": "upstream calls the plugin and the field of a pod alike",
    "Workload": "upstream calls the kind and what a benchmark runs alike",
}


def ident(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield str(node.module)


@pytest.mark.parametrize("path", MODULES, ids=ident)
def test_libraries_stay_with_their_package(path: Path) -> None:
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports(path):
        library = name.partition(".")[0]
        assert package in LIBRARIES.get(library, {package}), f"{library} belongs to {LIBRARIES[library]}"


def test_every_public_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(ident(path))
    shared = {name: where for name, where in homes.items() if len(where) > 1}
    assert shared.keys() == SAME_NAME.keys(), shared


@pytest.mark.parametrize("path", PACKAGES, ids=ident)
def test_every_package_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
