"""Converts the objects of a cluster event to the kind that a queueing hint expects.

Both functions raise TypeError for anything else; the queue then retries the pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kuberth.api.core import Node

T = TypeVar("T")


def expect(kind: type[T], obj: object) -> T:
    """The object of an event, which must exist."""
    if isinstance(obj, kind):
        return obj
    raise TypeError(f"a hint about a {kind.__name__} was asked about a {type(obj).__name__}")


def before_and_after(kind: type[T], old: object, new: object) -> tuple[T | None, T | None]:
    """Both objects of the event; None stays None for an addition or a deletion."""
    return (
        None if old is None else expect(kind, old),
        None if new is None else expect(kind, new),
    )


def changed_node_labels(old: object, new: object) -> Iterable[str] | None:
    """The label keys in which two versions of a node differ; None for an addition or a deletion.

    Used in the `Concern` of plugins whose hints about node updates only read labels.
    """
    before, after = before_and_after(Node, old, new)
    if before is None or after is None:
        return None
    return [key for key, _value in before.metadata.labels.items() ^ after.metadata.labels.items()]
