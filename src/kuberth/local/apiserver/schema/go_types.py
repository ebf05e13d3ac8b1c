"""What Go's types add to the fields of a kind, condensed from Kubernetes' own OpenAPI documents.

In: the name of a type. Out: whether it is one value, and what its fields hold where nobody set them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class GoType:
    atomic: bool = False
    """Whether a value of it is only ever replaced as a whole."""
    zeros: Mapping[str, Any] = field(default_factory=dict)
    """Field → what Kubernetes writes there for nothing: `{}` for a struct, None for a required list."""


_PLAIN: Final = GoType()


@cache
def _table() -> dict[str, GoType]:
    text = files("kuberth.local.apiserver.schema").joinpath("go_types.json").read_text(encoding="utf-8")
    return {name: GoType(**entry) for name, entry in json.loads(text).items()}


def go_type(name: str) -> GoType:
    return _table().get(name, _PLAIN)
