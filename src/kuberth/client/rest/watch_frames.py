"""A watch's bytes, line by line, as events.

In: pieces of a body that know nothing of lines. Out: `WatchEvent`s in order; an ERROR event raises. One
object that cannot be read does not end the watch: it is logged by name and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import decode
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.client.rest.refusals import watch_error
from kuberth.errors import ApiError, WireError

logger = logging.getLogger(__name__)


class _Frame(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Bare(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_FRAMES: msgspec.json.Decoder[_Frame] = msgspec.json.Decoder(_Frame)
_TYPES = {str(each): each for each in WatchType}


class WatchDecoder:
    """Turns one watch's body into events of one kind."""

    def __init__(self, kind: type[Any], *, what: str, cap: int) -> None:
        self._kind = kind
        self._what = what
        self._cap = cap
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[WatchEvent]:
        """The events that are complete with these bytes."""
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(self._rest + data)
            return
        lines = (self._rest + data[:end] if self._rest else data[:end]).split(b"\n")
        self._keep(data[end + 1 :])
        for line in lines:
            if line and not line.isspace():
                event = self._event(line)
                if event is not None:
                    yield event

    def _keep(self, rest: bytes) -> None:
        if len(rest) > self._cap:
            raise ApiError(f"{self._what}: one event is larger than {self._cap} bytes; the watch ends")
        self._rest = rest

    def _event(self, line: bytes) -> WatchEvent | None:
        try:
            frame = _FRAMES.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(f"{self._what}: the stream is damaged ({error}); watch again") from error
        if frame.type == "ERROR":
            raise watch_error(frame.object, what=self._what)
        type_ = _TYPES.get(frame.type)
        if type_ is None:
            logger.warning("%s: event type %r is unknown and skipped", self._what, frame.type[:40])
            return None
        if type_ is WatchType.BOOKMARK:
            return WatchEvent(type_, None, decode(_Bare, bytes(frame.object)).metadata.resource_version)
        try:
            obj = decode(self._kind, bytes(frame.object))
        except WireError as error:
            return self._skipped(type_, bytes(frame.object), error)
        return WatchEvent(type_, obj, obj.metadata.resource_version)

    def _skipped(self, type_: WatchType, raw: bytes, error: WireError) -> WatchEvent | None:
        """A deletion needs no more than a name; any other change of an unreadable object is lost."""
        try:
            metadata = decode(_Bare, raw).metadata
        except WireError:
            logger.error("%s: an object cannot be read and is skipped: %s", self._what, error)
            return None
        if type_ is WatchType.DELETED:
            return WatchEvent(type_, self._kind(metadata=metadata), metadata.resource_version)
        logger.error("%s: an object cannot be read, its change is skipped: %s", self._what, error)
        # Nothing changes, but the watch has come this far.
        return WatchEvent(WatchType.BOOKMARK, None, metadata.resource_version)
