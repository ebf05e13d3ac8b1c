"""The objects of a cluster event as a queueing hint gets them, checked to be of the kind it expects.

Both raise TypeError for anything else, which the queue reads as "try the pod again".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kuberth.api.core import Node

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


def changed_node_labels(old: object, new: object) -> Iterable[str] | None:
    """The label keys in which two versions of a node differ; None for an addition or a deletion.

    For a `Concern` of plugins whose hints about node updates look at nothing but labels.
    """
    before, after = before_and_after(Node, old, new)
    if before is None or after is None:
        return None
    return [key for key, _value in before.metadata.labels.items() ^ after.metadata.labels.items()]
