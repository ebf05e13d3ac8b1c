"""The page about the local cluster names every kind that is served and every controller that runs."""

from __future__ import annotations

import re
from pathlib import Path

from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.hollow.running import CONTROLLERS

PAGE = (Path(__file__).parents[3] / "docs" / "local-cluster.md").read_text(encoding="utf-8")


def test_every_kind_is_told() -> None:
    section = PAGE.partition("## Kinds, and what each does")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    told = {kind.strip() for row in rows for kind in row.split(",")} - {"kind"}
    # Evictions and bindings are written to pods.
    assert told == {row.kind for row in ROWS} | {"Eviction", "Binding"}


def test_every_controller_is_told() -> None:
    told = re.search(r"Controllers have the names .*?\n\n", PAGE, re.DOTALL)
    assert told is not None
    assert set(re.findall(r"`([a-z-]+)`", told[0])) - {"--without"} == set(CONTROLLERS)
