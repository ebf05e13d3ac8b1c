"""The page about devices documents every field of the file."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import fields

from kuberth.local.hollow.devices import DeviceEntry, Driver, PoolEntry
from tests.docs.pages import ROOT

PAGE = Path("docs/dynamic-resources.md")


def test_every_field_is_in_the_tables() -> None:
    section = (ROOT / PAGE).read_text(encoding="utf-8").partition("### The file\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = [name.strip().strip("`") for cell in cells for name in cell.split(",")]
    known = [field.encode_name for kind in (Driver, PoolEntry, DeviceEntry) for field in fields(kind)]
    assert sorted(documented) == sorted(known)
