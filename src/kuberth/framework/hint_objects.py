"""The objects of a cluster event as a queueing hint gets them, checked to be of the kind it expects.

Both raise TypeError for anything else, which the queue reads as "try the pod again".
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def expect(kind: type[T], obj: object) -> T:
    """An object that the event must have."""
    if isinstance(obj, kind):
        return obj
    raise TypeError(f"a hint about a {kind.__name__} was asked about a {type(obj).__name__}")


def before_and_after(kind: type[T], old: object, new: object) -> tuple[T | None, T | None]:
    """Both objects of the event; None stays None: nothing was there before, or nothing is there any more."""
    return (
        None if old is None else expect(kind, old),
        None if new is None else expect(kind, new),
    )
