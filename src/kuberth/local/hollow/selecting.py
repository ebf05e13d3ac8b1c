"""Label selectors of plain objects, compiled once."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import NOTHING, Selector, compile_label_selector
from kuberth.api.wire import decode
from kuberth.errors import SelectorError, WireError
from kuberth.local.apiserver.objects import Obj


def selector_of(selector: Obj | None) -> Selector:
    """None selects nothing, {} everything; one that cannot be read selects nothing."""
    return NOTHING if selector is None else _compile(msgspec.json.encode(selector, order="deterministic"))


def labels_of(obj: Obj) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


@lru_cache(maxsize=4096)
def _compile(text: bytes) -> Selector:
    try:
        return compile_label_selector(decode(LabelSelector, text))
    except (SelectorError, WireError):
        return NOTHING
