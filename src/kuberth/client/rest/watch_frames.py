"""Decodes the frames of a watch.

In: pieces of a body, cut anywhere. Out: `WatchEvent`s in order; an ERROR event raises.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from kuberth.api.wire import decode, decoder_of
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.client.reading import read_change
from kuberth.client.rest.refusals import watch_error
from kuberth.errors import ApiError, WireError

logger = logging.getLogger(__name__)


class _Frame(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


_FRAMES: msgspec.json.Decoder[_Frame] = msgspec.json.Decoder(_Frame)
_TYPES = {str(each): each for each in WatchType}
_CHANGES = {str(each): each for each in WatchType if each is not WatchType.BOOKMARK}


_WHOLE_FRAMES: dict[type[Any], type[Any]] = {}


def _whole_frame(kind: type[Any]) -> type[Any]:
    """The type of a frame with an object of this kind."""
    found = _WHOLE_FRAMES.get(kind)
    if found is None:
        fields = [("type", str), ("object", kind)]
        found = msgspec.defstruct(f"{kind.__name__}Frame", fields, frozen=True, gc=False)
        _WHOLE_FRAMES[kind] = found
    return found


class WatchDecoder:
    """Decodes the body of one watch into events of one kind."""

    def __init__(self, kind: type[Any], *, what: str, cap: int) -> None:
        self._kind = kind
        self._what = what
        self._cap = cap
        self._rest = b""
        self._whole = decoder_of(_whole_frame(kind))

    def feed(self, data: bytes) -> Iterator[WatchEvent]:
        """Add bytes; yields the events that are complete."""
        end = data.rfind(b"\n")
        if end < 0:
            self._hold_rest(self._rest + data)
            return
        lines = (self._rest + data[:end] if self._rest else data[:end]).split(b"\n")
        self._hold_rest(data[end + 1 :])
        for line in lines:
            if line and not line.isspace():
                event = self._event(line)
                if event is not None:
                    yield event

    def _hold_rest(self, rest: bytes) -> None:
        """Hold the beginning of a frame until its end arrives; ApiError if it grows too large."""
        if len(rest) > self._cap:
            raise ApiError(f"{self._what}: one event is larger than {self._cap} bytes; the watch ends")
        self._rest = rest

    def _event(self, line: bytes) -> WatchEvent | None:
        try:
            # The fast path: decode the frame and its object in one pass.
            whole = self._whole.decode(line)
            change = _CHANGES.get(whole.type)
            if change is not None:
                return WatchEvent(change, whole.object, whole.object.metadata.resource_version)
        except (msgspec.MsgspecError, UnicodeDecodeError, WireError):
            pass  # the following lines report it
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
        return read_change(decode, self._kind, type_, bytes(frame.object), what=self._what)
