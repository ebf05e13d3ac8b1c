"""Answers of the upstream Go libraries (v0.36.4) to generated and hand-picked inputs, stored as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def load(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        (Path(__file__).parent / "data" / f"{name}.json").read_text("utf-8")
    )
    return rows
