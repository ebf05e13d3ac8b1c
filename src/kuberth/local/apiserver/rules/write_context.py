"""The state around a write that rules may read besides the object itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.store.store import RevisionStore


@dataclass(frozen=True, slots=True)
class WriteContext:
    """The state around a write."""

    row: ServedResource
    """The resource that is written."""
    store: RevisionStore
    gates: Mapping[str, bool]
    now: str
    """The present time as a timestamp."""
