"""Timestamps and durations: parsing, formatting and methods."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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
    year, moment = _civil(timestamp, timestamp.offset)
    nanoseconds = timestamp.nanoseconds % SECOND
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    zone = "Z"
    if timestamp.offset:
        sign = "-" if timestamp.offset < 0 else "+"
        minutes = abs(timestamp.offset) // 60
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"


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


_CYCLE_DAYS = 146097  # the calendar repeats every 400 years
_CYCLE_SECONDS = _CYCLE_DAYS * 86400


def _civil(timestamp: Timestamp, offset: int) -> tuple[int, datetime]:
    """The year, and the moment in a year with the same calendar."""
    seconds, nanoseconds = divmod(timestamp.nanoseconds, SECOND)
    # An offset may lead to year 0, which datetime does not have: move by whole cycles of the calendar.
    cycles, seconds = divmod(seconds + offset, _CYCLE_SECONDS)
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    return moment.year + 400 * cycles, moment


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


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_SPANS = {
    "getHours": 3600 * SECOND,
    "getMinutes": 60 * SECOND,
    "getSeconds": SECOND,
    "getMilliseconds": 10**6,
}


def _year(timestamp: Timestamp, zone: str = "UTC") -> int:
    return _civil(timestamp, _offset(timestamp, zone))[0]


def _part(part: Callable[[datetime], int]) -> Callable[..., Value]:
    return lambda timestamp, zone="UTC": part(_civil(timestamp, _offset(timestamp, zone))[1])


def _whole_units(unit: int) -> Callable[[Duration], int]:
    def apply(duration: Duration) -> int:
        whole = abs(duration.nanoseconds) // unit
        return -whole if duration.nanoseconds < 0 else whole

    return apply


LIBRARY: tuple[Overload, ...] = (
    *(
        method(f"timestamp.{name}({zone}) -> int", apply)
        for name, apply in {
            "getFullYear": _year,
            **{name: _part(part) for name, part in _PARTS.items()},
        }.items()
        for zone in ("", "string")
    ),
    *(method(f"duration.{name}() -> int", _whole_units(unit)) for name, unit in _SPANS.items()),
)
