"""Corpus files: gzipped or plain JSON lines, one case with its answer per line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"

Case = dict[str, Any]


def read_cases(path: Path) -> Iterator[Case]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def family(case: Case) -> str:
    """The id without its two trailing numbers."""
    return str(case["id"]).rsplit("-", 2)[0]
