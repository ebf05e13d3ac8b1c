"""Corpus files: gzipped or plain JSON lines, one case with its answer per line."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

CORPUS = Path(__file__).parent / "corpus"

Case = dict[str, Any]


class _Identity(msgspec.Struct):
    id: str


def read_cases(path: Path) -> Iterator[Case]:
    return map(decoded, _lines(path))


def lines_by_family(path: Path) -> dict[str, list[bytes]]:
    """The cases as text: thousands of trees in memory would make every collection of garbage slow."""
    families: dict[str, list[bytes]] = {}
    for line in _lines(path):
        name = _family(msgspec.json.decode(line, type=_Identity).id)
        families.setdefault(name, []).append(line)
    return families


def decoded(line: bytes) -> Case:
    case: Case = msgspec.json.decode(line)
    return case


def family(case: Case) -> str:
    return _family(case["id"])


def _family(case_id: str) -> str:
    """The id without its two trailing numbers."""
    return case_id.rsplit("-", 2)[0]


def _lines(path: Path) -> Iterator[bytes]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as lines:
        yield from lines
