"""Sets of fields, as FieldsV1 writes them, and what can be done with them.

In and out: trees of marks. `f:` is a field, `k:` a list entry by its keys, `v:` an entry by its value. A
mark with nothing below is a member of the set; one with marks below is a member if `.` is among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

FieldSet = dict[str, Any]

SELF: Final = "."
_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def union(first: FieldSet, second: FieldSet) -> FieldSet:
    if not first or not second:
        return first or second
    found = dict(first)
    for mark, node in second.items():
        found[mark] = _joined(found[mark], node) if mark in found else node
    return found


def _joined(first: FieldSet, second: FieldSet) -> FieldSet:
    below = union(_below(first), _below(second))
    return _node(below, member=is_member(first) or is_member(second)) or {}


def minus(fields: FieldSet, gone: FieldSet) -> FieldSet:
    """The members of the first set that are not in the second."""
    if not gone:
        return fields
    found: FieldSet = {}
    for mark, node in fields.items():
        other = gone.get(mark)
        if other is None:
            found[mark] = node
            continue
        member = is_member(node) and not is_member(other)
        left = _node(minus(_below(node), _below(other)), member=member)
        if left is not None:
            found[mark] = left
    return found


def common(first: FieldSet, second: FieldSet) -> FieldSet:
    """The members of both."""
    found: FieldSet = {}
    for mark, node in first.items():
        other = second.get(mark)
        if other is None:
            continue
        member = is_member(node) and is_member(other)
        both = _node(common(_below(node), _below(other)), member=member)
        if both is not None:
            found[mark] = both
    return found


def _below(node: FieldSet) -> FieldSet:
    return {mark: inner for mark, inner in node.items() if mark != SELF} if SELF in node else node


def _node(below: FieldSet, *, member: bool) -> FieldSet | None:
    if below:
        return {SELF: {}, **below} if member else below
    return {} if member else None


def paths(fields: FieldSet, above: str = "") -> Iterator[str]:
    """The members, as conflicts name them, in order."""
    for mark in sorted(fields, key=_place):
        if mark == SELF:
            continue
        node, path = fields[mark], above + path_of(mark)
        if is_member(node):
            yield path
        yield from paths(node, path)


def in_order(fields: FieldSet) -> FieldSet:
    """The field set in the order in which upstream writes it."""
    if len(fields) < 2:
        return {mark: in_order(node) for mark, node in fields.items()} if fields else fields
    return {mark: in_order(fields[mark]) for mark in sorted(fields, key=_place)}


def read_set(tree: Any) -> FieldSet | None:
    """The set of a client's FieldsV1; None if it is invalid."""
    if not isinstance(tree, dict):
        return None
    for mark, node in tree.items():
        if mark != SELF and not _is_mark(mark):
            return None
        if read_set(node) is None:
            return None
    return tree


def _is_mark(mark: str) -> bool:
    kind, colon, text = mark.partition(":")
    if not colon or kind not in _ORDER:
        return False
    if kind == "f":
        return True
    value = _parsed(text)
    return isinstance(value, dict) if kind == "k" else value is not None


def key_mark(keys: Iterable[tuple[str, Any]]) -> str:
    return "k:" + json_text(dict(sorted(keys)))


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def path_of(mark: str) -> str:
    if mark.startswith("f:"):
        return f".{mark[2:]}"
    if mark.startswith("k:"):
        keys = _parsed(mark[2:])
        if isinstance(keys, dict):
            return "[" + ",".join(f"{name}={json_text(value)}" for name, value in keys.items()) + "]"
    if mark.startswith("v:"):
        return f"[={mark[2:]}]"
    return f"[{mark[2:]}]"


def _place(mark: str) -> tuple[Any, ...]:
    """Fields by name, then entries by the values of their keys: port 80 comes before port 443."""
    if mark[:2] == "f:":
        return (0, mark[2:])
    if mark == SELF:
        return (-1,)
    kind, text = mark[0], mark[2:]
    value = _parsed(text)
    if kind == "k" and isinstance(value, dict):
        return (1, tuple((name, *_rank(value[name])) for name in sorted(value)), text)
    return (_ORDER.get(kind, 4), _rank(value), text)


def _rank(value: Any) -> tuple[int, Any]:
    """Values of one type among each other; types that cannot be compared one after the other."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, (int, float)):
        return (0, value)
    return (1, value if isinstance(value, str) else json.dumps(value))
