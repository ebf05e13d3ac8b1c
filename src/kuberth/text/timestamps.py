"""Converts times to and from the API's format.

In: a clock, or nanoseconds since the epoch. Out: RFC 3339 text or datetimes, and the other way round.
"""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from kuberth.clock import NANOSECONDS, Clock

D = TypeVar("D", bound=datetime.datetime)

_TO_THE_SECOND: Final = len("1970-01-01T00:00:00")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment(now_ns: int) -> datetime.datetime:
    """The time to the second: metav1.Time."""
    return datetime.datetime.fromtimestamp(now_ns // NANOSECONDS, datetime.UTC)


def micro_moment(now_ns: int, type_: type[D]) -> D:
    """The time to the microsecond: metav1.MicroTime, as in leases and events."""
    seconds, rest = divmod(now_ns, NANOSECONDS)
    return type_.fromtimestamp(seconds, datetime.UTC).replace(microsecond=rest // 1000)


def timestamp(now_ns: int) -> str:
    return _text_of(now_ns // NANOSECONDS)


@lru_cache(maxsize=16)
def _text_of(seconds: int) -> str:
    """Cached: many objects have the same second."""
    return f"{moment(seconds * NANOSECONDS).isoformat()[:_TO_THE_SECOND]}Z"


def stamp(clock: Clock) -> str:
    """Now, to the second."""
    return timestamp(clock.now_ns())


def micro_stamp(clock: Clock) -> str:
    """Now, to the microsecond."""
    return f"{micro_moment(clock.now_ns(), datetime.datetime):%Y-%m-%dT%H:%M:%S.%fZ}"


def parse_timestamp(text: Any) -> int | None:
    """Nanoseconds since the epoch; None if the text is not a time."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return nanoseconds(found)


def nanoseconds(moment: datetime.datetime) -> int:
    """Nanoseconds since the epoch."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * NANOSECONDS + delta.microseconds * 1_000


def seconds_since(text: Any, clock: Clock) -> float:
    """The seconds since a timestamp; 0 if it cannot be parsed."""
    then = parse_timestamp(text)
    return 0.0 if then is None else (clock.now_ns() - then) / NANOSECONDS
