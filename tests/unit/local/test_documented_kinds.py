"""The page about the local cluster names every kind that is served and every controller that runs."""

from __future__ import annotations

import re
from pathlib import Path

from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.hollow.running import CONTROLLERS

PAGE = (Path(__file__).parents[3] / "docs" / "local-cluster.md").read_text(encoding="utf-8")


def test_every_kind_is_documented() -> None:
    section = PAGE.partition("## Kinds\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    documented = {kind.strip() for row in rows for kind in row.split(",")} - {"kind"}
    # Evictions and bindings are written to pods.
    assert documented == {row.kind for row in ROWS} | {"Eviction", "Binding"}


def test_every_controller_is_documented() -> None:
    documented = re.search(r"Controllers have the names .*?\n\n", PAGE, re.DOTALL)
    assert documented is not None
    assert set(re.findall(r"`([a-z-]+)`", documented[0])) - {"--without"} == set(CONTROLLERS)
