"""Adds to the fields of a kind what Go's types say, condensed from Kubernetes' own OpenAPI documents.

In: the name of a type. Out: whether it is one value, and what its unset fields hold; and a
tree of the type as Go writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from kuberth.local.apiserver.schema.fields import fields_of
from kuberth.local.apiserver.schema.tables import read_table


@dataclass(frozen=True, slots=True)
class GoType:
    atomic: bool = False
    """Whether a value of it is only ever replaced as a whole."""
    zeros: Mapping[str, Any] = field(default_factory=dict)
    """Field → what Kubernetes writes there for nothing: `{}` for a struct, None for a required list."""


_PLAIN: Final = GoType()


@cache
def _table() -> dict[str, GoType]:
    return {name: GoType(**entry) for name, entry in read_table("go_types.json").items()}


def go_type(name: str) -> GoType:
    return _table().get(name, _PLAIN)


def as_go_writes(tree: Any, type_name: str) -> Any:
    """The tree as Go writes it, with zero values and sorted fields: some clients compare bytes."""
    if isinstance(tree, list):
        return [as_go_writes(entry, type_name[2:]) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    if type_name.startswith("{}"):
        return {name: as_go_writes(tree[name], type_name[2:]) for name in sorted(tree)}
    fields, whole = fields_of(type_name), {**go_type(type_name).zeros, **tree}
    return {
        name: as_go_writes(whole[name], fields[name].type if name in fields else "") for name in sorted(whole)
    }
