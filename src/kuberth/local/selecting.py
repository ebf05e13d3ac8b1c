"""Label selectors of plain objects, compiled once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import NOTHING, Selector, compile_label_selector
from kuberth.api.wire import decode
from kuberth.errors import SelectorError, WireError
from kuberth.local.apiserver.objects import Obj


def selector_of(selector: Obj | None) -> Selector:
    """Compile a selector: None selects nothing, {} everything; an invalid one selects nothing."""
    compiled = None if selector is None else _compile(msgspec.json.encode(selector, order="deterministic"))
    return NOTHING if compiled is None else compiled


def selector_text(selector: Any) -> str | None:
    """A selector in kubectl's notation; None for an invalid one.

    It may be a string already, or, for a replication controller, a plain set of labels.
    """
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    compiled = _compile(msgspec.json.encode(selector, order="deterministic"))
    return None if compiled is None else str(compiled)


def labels_of(obj: Obj) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


@lru_cache(maxsize=4096)
def _compile(text: bytes) -> Selector | None:
    try:
        return compile_label_selector(decode(LabelSelector, text))
    except (SelectorError, WireError):
        return None
