"""What the fields of pods and nodes mean, for `kubectl explain`.

In: the name of a type and of a field. Out: a sentence, or "" where descriptions.yaml has none.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

from kuberth.text.documents import read_tree

_ANY: Final = "any"
_TYPE_FIELD: Final = "type_"
"""The key of a field that is called `type`, which stands for the type itself."""


def type_description(type_name: str) -> str:
    return str(_of(type_name).get("type", ""))


def field_description(type_name: str, field: str) -> str:
    """The text of the type for this field, or else the one that the field has in every type."""
    own = _of(type_name).get(_TYPE_FIELD if field == "type" else field)
    return str(own or _table()[_ANY].get(field, ""))


@cache
def _of(type_name: str) -> dict[str, str]:
    found = _table().get(type_name, {})
    return {**_of(found["like"]), **found} if "like" in found else found


@cache
def _table() -> dict[str, dict[str, str]]:
    text = files("kuberth.local.apiserver.schema").joinpath("descriptions.yaml").read_bytes()
    tree: Any
    tree, _errors = read_tree(text)
    return dict(tree)
