"""What users can call is listed, documented, and changes only on purpose."""

from __future__ import annotations

import importlib
from typing import Any

import griffe
import pytest

from tests.surface import MODULES, SNAPSHOT, SOURCE, lines, public_names

NAMES = dict(public_names())
API = griffe.load("kuberth.client.protocol", search_paths=[SOURCE])["Api"]
"""Whoever implements it need not say again what its verbs do."""


def test_the_surface_is_what_was_written_down() -> None:
    written = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    assert list(lines()) == written, "the public surface changed: if that is meant, run `make surface`"


@pytest.mark.parametrize("module", MODULES)
def test_every_listed_name_is_there(module: str) -> None:
    package: Any = importlib.import_module(module)
    assert package.__all__
    assert all(hasattr(package, name) for name in package.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_documented(name: str) -> None:
    target = NAMES[name]
    assert target.docstring is not None or isinstance(target, griffe.Attribute), name
    if isinstance(target, griffe.Class):
        undocumented = [
            member_name
            for member_name, member in target.members.items()
            if isinstance(member, griffe.Function)
            and not member_name.startswith("_")
            and not _documents_itself(member)
        ]
        assert not undocumented


def _documents_itself(method: griffe.Function) -> bool:
    """A docstring of its own, or the one of the method that it implements."""
    if method.docstring is not None:
        return True
    owner = method.parent
    assert isinstance(owner, griffe.Class)
    for base in (*owner.mro(), API):
        inherited = base.members.get(method.name)
        if isinstance(inherited, griffe.Function) and inherited.docstring is not None:
            return True
    return False
