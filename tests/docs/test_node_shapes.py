"""The page about node shapes documents every field."""

from __future__ import annotations

from pathlib import Path

from kuberth.local.hollow.shapes import Shape
from tests.docs.pages import table


def test_every_field_is_in_the_table() -> None:
    documented = [row[0].strip("`") for row in table(Path("docs/node-shapes.md"), "Fields")]
    assert sorted(documented) == sorted(Shape.__struct_fields__)
