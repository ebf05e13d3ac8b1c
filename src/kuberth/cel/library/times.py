"""Timestamps and durations: parsing, formatting and methods."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kuberth.cel.declarations import Overload, method
from kuberth.cel.numbers import format_plain
from kuberth.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, Value
from kuberth.errors import CelRuntimeError

SECOND = 10**9
_FIRST_SECOND = -62135596800  # 0001-01-01T00:00:00Z
_LAST_SECOND = 253402300799  # 9999-12-31T23:59:59Z
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:(Z)|([+-])(\d\d):(\d\d))", re.ASCII
)
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign
    "μs": 10**3,  # Greek mu
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST_DIGITS = 400


def check_timestamp(nanoseconds: int, offset: int) -> Timestamp:
    if not _FIRST_SECOND <= nanoseconds // SECOND <= _LAST_SECOND:
        raise CelRuntimeError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def check_duration(nanoseconds: int) -> Duration:
    if not INT_MIN <= nanoseconds <= INT_MAX:
        raise CelRuntimeError("integer overflow")
    return Duration(nanoseconds)


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 timestamp; None for another text."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    offset = 0
    if not found[8]:
        hours, minutes = int(found[10]), int(found[11])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if found[9] == "-" else 1)
    try:
        # Year 0 exists in RFC 3339 but not in datetime; it is outside of CEL's range anyway.
        moment = datetime(year or 1, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    if year == 0:
        raise CelRuntimeError("timestamp overflow")
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    nanoseconds = int(((found[7] or "") + "000000000")[:9])
    return check_timestamp(seconds * SECOND + nanoseconds, offset)


def format_timestamp(timestamp: Timestamp) -> str:
    moment = _civil(timestamp, timestamp.offset)
    fraction = f".{moment.nanosecond:09d}".rstrip("0") if moment.nanosecond else ""
    zone = "Z"
    if timestamp.offset:
        sign = "-" if timestamp.offset < 0 else "+"
        minutes = abs(timestamp.offset) // 60
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    date = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{date}T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}{fraction}{zone}"


def parse_duration(text: str) -> Duration | None:
    """Parse Go's notation: 1h30m, 1.5s, -2ms; None for another text."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    position, total = 0, 0
    while position < len(body):
        part = _DURATION_PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            return None
        whole, fraction, unit = part[1], part[2] or "", _UNITS[part[3]]
        if len(whole) > _LONGEST_DIGITS:
            return None
        total += int(whole or "0") * unit
        if fraction:
            kept = fraction[:18]
            total += int(float(int(kept)) * (float(unit) / float(10 ** len(kept))))
        if total > 2**63:
            return None
        position = part.end()
    negative = text.startswith("-")
    if not position or (total > INT_MAX and not negative):
        return None
    return Duration(-total if negative else total)


def format_duration(duration: Duration) -> str:
    seconds, rest = divmod(abs(duration.nanoseconds), SECOND)
    value = seconds + rest / 1e9
    return f"{format_plain(-value if duration.nanoseconds < 0 else value)}s"


def timestamp_of_seconds(seconds: int) -> Timestamp:
    return check_timestamp(seconds * SECOND, 0)


class _Moment(NamedTuple):
    """The date and time of a timestamp in a time zone."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    weekday: int
    yearday: int


_CYCLE_DAYS = 146097  # the calendar repeats every 400 years
_CYCLE_SECONDS = _CYCLE_DAYS * 86400


def _civil(timestamp: Timestamp, offset: int) -> _Moment:
    seconds, nanosecond = divmod(timestamp.nanoseconds, SECOND)
    # An offset may lead to year 0, which datetime does not have: move by whole cycles of the calendar.
    cycles, seconds = divmod(seconds + offset, _CYCLE_SECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    return _Moment(
        moment.year + 400 * cycles,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        nanosecond,
        moment.isoweekday() % 7,
        moment.timetuple().tm_yday - 1,
    )


def _offset(timestamp: Timestamp, name: str) -> int:
    """The offset from UTC in seconds of the named zone at this time."""
    head, colon, tail = name.partition(":")
    try:
        if colon:
            hours, minutes = _whole(head), _whole(tail)
            return 60 * (hours * 60 - minutes if name[0] == "-" else hours * 60 + minutes)
        if name in ("", "UTC"):
            return 0
        zone = ZoneInfo(name)
        seconds = min(max(timestamp.nanoseconds // SECOND, _FIRST_SECOND + 86400), _LAST_SECOND - 86400)
        shift = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
        return 0 if shift is None else shift // timedelta(seconds=1)
    except (ValueError, OverflowError, OSError, KeyError) as exc:
        raise CelRuntimeError(f"unknown time zone {name}") from exc


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text):
        raise ValueError(text)
    return int(text)


_Ask = Callable[[_Moment], int]
_PARTS: tuple[tuple[str, str, _Ask], ...] = (
    ("getFullYear", "timestamp_to_year", lambda moment: moment.year),
    ("getMonth", "timestamp_to_month", lambda moment: moment.month - 1),
    ("getDayOfYear", "timestamp_to_day_of_year", lambda moment: moment.yearday),
    ("getDayOfMonth", "timestamp_to_day_of_month", lambda moment: moment.day - 1),
    ("getDate", "timestamp_to_day_of_month_1_based", lambda moment: moment.day),
    ("getDayOfWeek", "timestamp_to_day_of_week", lambda moment: moment.weekday),
    ("getHours", "timestamp_to_hours", lambda moment: moment.hour),
    ("getMinutes", "timestamp_to_minutes", lambda moment: moment.minute),
    ("getSeconds", "timestamp_to_seconds", lambda moment: moment.second),
    ("getMilliseconds", "timestamp_to_milliseconds", lambda moment: moment.nanosecond // 10**6),
)
_SPANS = (
    ("getHours", "duration_to_hours", 3600 * SECOND),
    ("getMinutes", "duration_to_minutes", 60 * SECOND),
    ("getSeconds", "duration_to_seconds", SECOND),
    ("getMilliseconds", "duration_to_milliseconds", 10**6),
)


def _asking(ask: _Ask) -> Callable[..., Value]:
    def apply(timestamp: Timestamp, zone: str = "UTC") -> int:
        return ask(_civil(timestamp, _offset(timestamp, zone)))

    return apply


def _counting(unit: int) -> Callable[[Duration], int]:
    def apply(duration: Duration) -> int:
        whole = abs(duration.nanoseconds) // unit
        return -whole if duration.nanoseconds < 0 else whole

    return apply


LIBRARY: tuple[Overload, ...] = (
    *(
        overload
        for name, identity, ask in _PARTS
        for overload in (
            method(name, identity, "timestamp -> int", _asking(ask)),
            method(name, f"{identity}_with_tz", "timestamp, string -> int", _asking(ask)),
        )
    ),
    *(method(name, identity, "duration -> int", _counting(unit)) for name, identity, unit in _SPANS),
)
