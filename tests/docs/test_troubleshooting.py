"""Messages that the page explains are messages that the program has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, table

PAGE = Path("docs/troubleshooting.md")
LEAST = 8
"""Shorter pieces of a message say nothing about where it comes from."""
SOURCE = "\n".join(
    re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "src" / "kuberth").rglob("*.py"))
)


def messages() -> list[str]:
    rows = [
        *table(PAGE, "Common messages"),
        *table(PAGE, "`kuberth up` does not start"),
        *([found] for row in table(PAGE, "Nothing is scheduled") for found in row if "the log: " in found),
    ]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize("message", messages())
def test_the_message_exists(message: str) -> None:
    pieces = [piece.strip() for piece in message.split("…")]
    assert all(piece in SOURCE for piece in pieces if len(piece) >= LEAST)
    assert any(len(piece) >= LEAST for piece in pieces)
