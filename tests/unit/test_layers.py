"""The import contract: a package imports only from layers below its own, never beside or above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kuberth

SOURCE = Path(kuberth.__file__).parent

LAYERS = (
    {"__main__"},
    {"cli"},
    {"daemon", "embedded"},
    {"inspection"},
    {"app", "evaluation"},
    {"serving", "leader_election", "hollow"},
    {"assembly"},
    {"intake", "binding"},
    {"scheduling"},
    {"plugins", "queue"},
    {"framework"},
    {"cluster"},
    {"informers"},
    {"client"},
    {"apiserver"},
    {"config"},
    {"api"},
    {"observe", "errors", "clock"},
)
"""Top first. `testing` stands beside all of them: it may import anything, and nothing imports it."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}

ONLY_IN = {
    "click": {"cli"},
    "rich": {"cli"},
    "yaml": {"config", "apiserver", "hollow"},
    "uvicorn": {"apiserver", "serving"},
    "cryptography": {"serving", "apiserver"},
    "prometheus_client": {"observe"},
}
"""Libraries that belong to one package."""


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE or path.stem != "__init__"]


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield str(node.module)


def test_every_package_has_a_layer() -> None:
    assert {package_of(path) for path in modules()} <= {*LEVEL, "testing"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    package = package_of(path)
    for name in imports(path):
        first, _, rest = name.partition(".")
        if first != "kuberth" or not rest:
            assert package in ONLY_IN.get(first, {package}), f"{path}: {first} belongs to {ONLY_IN[first]}"
            continue
        target = rest.partition(".")[0]
        if package == "testing" or target == package:
            continue
        assert target != "testing", f"{path}: nothing but tests may import kuberth.testing"
        assert LEVEL[target] > LEVEL[package], f"{path}: {package} must not import {target}"
