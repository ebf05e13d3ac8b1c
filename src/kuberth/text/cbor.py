"""CBOR as Kubernetes writes it: strings as byte strings, after the head of a self-described document.

In: a tree of dicts, lists, strings, integers, booleans and None. Out: bytes (RFC 8949), with keys in their
order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_SIMPLE: Final = {False: b"\xf4", True: b"\xf5", None: b"\xf6"}


def write_cbor(tree: Any) -> bytes:
    """Encode a document; TypeError for other values."""
    return _SELF_DESCRIBED + _item(tree)


def _item(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return _SIMPLE[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, str):
        encoded = value.encode()
        return _head(2, len(encoded)) + encoded
    if isinstance(value, list | tuple):
        return _head(4, len(value)) + b"".join(map(_item, value))
    if isinstance(value, Mapping):
        pairs = (_item(key) + _item(each) for key, each in value.items())
        return _head(5, len(value)) + b"".join(pairs)
    raise TypeError(f"{type(value).__name__} has no form in CBOR here")


def _head(major: int, number: int) -> bytes:
    """The type of an item and its value or length, in as few bytes as possible."""
    if number < 24:
        return bytes([major << 5 | number])
    for power, size in enumerate((1, 2, 4, 8)):
        if number < 1 << 8 * size:
            return bytes([major << 5 | 24 + power]) + number.to_bytes(size)
    raise TypeError(f"{number} is too large for CBOR")
