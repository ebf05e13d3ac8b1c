"""The objects of a cluster event as a queueing hint gets them, checked to be of the kind it expects."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def before_and_after(kind: type[T], old: object, new: object) -> tuple[T | None, T | None]:
    """Both as `kind`; None stays None. Raises TypeError, which the queue reads as "try the pod again"."""
    return _as(kind, old), _as(kind, new)


def _as(kind: type[T], obj: object) -> T | None:
    if obj is None or isinstance(obj, kind):
        return obj
    raise TypeError(f"a hint about a {kind.__name__} was asked about a {type(obj).__name__}")
