"""What users can call is listed, documented, and changes only on purpose."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import griffe
import pytest

from tests.surface import MODULES, SNAPSHOT, lines, module_of, public_names


def test_the_surface_is_what_was_written_down() -> None:
    written = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    assert list(lines()) == written, "the public surface changed: if that is meant, run `make surface`"


@pytest.mark.parametrize("module", MODULES)
def test_every_listed_name_is_there(module: str) -> None:
    package: Any = importlib.import_module(module)
    assert package.__all__
    assert all(hasattr(package, name) for name in package.__all__)


def test_every_public_name_is_documented() -> None:
    assert not [hole for name, target in public_names() for hole in _holes(name, target)]


def _holes(name: str, target: griffe.Object) -> Iterator[str]:
    if target.docstring is None and not isinstance(target, griffe.Attribute):
        yield name
    if isinstance(target, griffe.Class):
        for member_name, member in target.members.items():
            if member_name.startswith("_") or not isinstance(member, griffe.Function):
                continue
            if not _documents_itself(member):
                yield f"{name}.{member_name}"


def _documents_itself(method: griffe.Function) -> bool:
    """A docstring of its own, or the one of the method that it implements."""
    if method.docstring is not None:
        return True
    owner = method.parent
    assert isinstance(owner, griffe.Class)
    # Implementations of the API need not document its verbs again.
    for base in (*owner.mro(), module_of("client.protocol")["Api"]):
        inherited = base.members.get(method.name)
        if isinstance(inherited, griffe.Function) and inherited.docstring is not None:
            return True
    return False
