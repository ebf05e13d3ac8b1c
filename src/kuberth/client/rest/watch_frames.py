"""A watch's bytes, line by line, as events.

In: pieces of a body that know nothing of lines. Out: `WatchEvent`s in order; an ERROR event raises.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec

from kuberth.api.wire import decode
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.client.reading import read_change
from kuberth.client.rest.refusals import watch_error
from kuberth.errors import ApiError

logger = logging.getLogger(__name__)


class _Frame(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


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
        return read_change(decode, self._kind, type_, bytes(frame.object), what=self._what)
