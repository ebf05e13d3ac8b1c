"""Text from objects and servers, made safe for a terminal."""

from __future__ import annotations


def printable(text: object, *, keep: str = "", instead: str = "�") -> str:
    """The text with control characters replaced, so that it neither moves the cursor nor changes colours."""
    return "".join(each if each.isprintable() or each in keep else instead for each in str(text))
