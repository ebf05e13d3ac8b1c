"""Decodes objects one by one, so that an invalid one does not affect the others.

In: raw objects, as JSON or as trees, and a decoder. Out: objects and watch events. An invalid object is
logged by name and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from kuberth.api.meta import ListMeta, ObjectMeta
from kuberth.api.wire import Wire, decode
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.errors import ApiError, WireError

logger = logging.getLogger(__name__)

Raw = TypeVar("Raw")
Read = Callable[[type[Any], Raw], Any]
"""Reads a raw object as a type: `kuberth.api.wire.decode` reads JSON, `convert` reads trees."""


class _MetadataOnly(Wire):
    metadata: ObjectMeta = ObjectMeta()


def read_items(read: Read[Raw], kind: type[Any], items: Iterable[Raw], *, what: str) -> list[Any]:
    found = []
    for item in items:
        try:
            found.append(read(kind, item))
        except WireError as error:
            logger.error("%s: an object cannot be decoded and is skipped: %s", what, error)
    return found


def read_change(
    read: Read[Raw], kind: type[Any], type_: WatchType, raw: Raw, *, what: str
) -> WatchEvent | None:
    """Decode one change; None if not even the object's name can be read."""
    if type_ is WatchType.BOOKMARK:
        return WatchEvent(type_, None, read(_MetadataOnly, raw).metadata.resource_version)
    try:
        obj = read(kind, raw)
    except WireError as error:
        return _skipped(read, kind, type_, raw, error, what=what)
    return WatchEvent(type_, obj, obj.metadata.resource_version)


def _skipped(
    read: Read[Raw], kind: type[Any], type_: WatchType, raw: Raw, error: WireError, *, what: str
) -> WatchEvent | None:
    """The event for an invalid object: a deletion needs only a name; other changes are skipped."""
    try:
        metadata = read(_MetadataOnly, raw).metadata
    except WireError:
        logger.error("%s: an object cannot be decoded and is skipped: %s", what, error)
        return None
    if type_ is WatchType.DELETED:
        return WatchEvent(type_, kind(metadata=metadata), metadata.resource_version)
    logger.error("%s: an object cannot be decoded, its change is skipped: %s", what, error)
    # A bookmark, so that the watch continues from here.
    return WatchEvent(WatchType.BOOKMARK, None, metadata.resource_version)


class Page(NamedTuple):
    items: list[Any]
    resource_version: str
    continue_token: str


class _RawList(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


_LISTS: msgspec.json.Decoder[_RawList] = msgspec.json.Decoder(_RawList)


def decode_page(kind: type[Any], raw: bytes, *, what: str) -> Page:
    # Item by item, so that an invalid one does not affect others; finding its end costs a tenth of decoding
    # it.
    try:
        page = _LISTS.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(f"{what}: the response is not a list ({error}); is this a Kubernetes API?") from error
    items = read_items(decode, kind, map(bytes, page.items or ()), what=what)
    return Page(items, page.metadata.resource_version, page.metadata.continue_)
