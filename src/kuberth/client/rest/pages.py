"""Decodes pages of lists.

In: the body of a list answer. Out: its items, its resource version and its continue token.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kuberth.api.meta import ListMeta
from kuberth.api.wire import decode
from kuberth.client.reading import read_items
from kuberth.errors import ApiError


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
