"""What an API server holds, as objects of a kind; one that cannot be read does not lose the others.

In: raw objects, as JSON or as trees, and how to read them. Out: objects and watch events. An object that
cannot be read is told by name and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import Wire
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.errors import WireError

logger = logging.getLogger(__name__)

Raw = TypeVar("Raw")
Read = Callable[[type[Any], Raw], Any]
"""`kuberth.api.wire.decode` for JSON, `convert` for trees."""


class _Bare(Wire):
    metadata: ObjectMeta = ObjectMeta()


def read_items(read: Read[Raw], kind: type[Any], items: Iterable[Raw], *, what: str) -> list[Any]:
    found = []
    for item in items:
        try:
            found.append(read(kind, item))
        except WireError as error:
            logger.error("%s: an object cannot be read and is skipped: %s", what, error)
    return found


def read_change(
    read: Read[Raw], kind: type[Any], type_: WatchType, raw: Raw, *, what: str
) -> WatchEvent | None:
    """One change; None if not even the object's name can be read."""
    if type_ is WatchType.BOOKMARK:
        return WatchEvent(type_, None, read(_Bare, raw).metadata.resource_version)
    try:
        obj = read(kind, raw)
    except WireError as error:
        return _skipped(read, kind, type_, raw, error, what=what)
    return WatchEvent(type_, obj, obj.metadata.resource_version)


def _skipped(
    read: Read[Raw], kind: type[Any], type_: WatchType, raw: Raw, error: WireError, *, what: str
) -> WatchEvent | None:
    """A deletion needs no more than a name; any other change of an unreadable object is lost."""
    try:
        metadata = read(_Bare, raw).metadata
    except WireError:
        logger.error("%s: an object cannot be read and is skipped: %s", what, error)
        return None
    if type_ is WatchType.DELETED:
        return WatchEvent(type_, kind(metadata=metadata), metadata.resource_version)
    logger.error("%s: an object cannot be read, its change is skipped: %s", what, error)
    # Nothing changes, but the watch has come this far.
    return WatchEvent(WatchType.BOOKMARK, None, metadata.resource_version)
