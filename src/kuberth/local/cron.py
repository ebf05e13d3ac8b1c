"""Schedules of CronJobs: five fields, macros such as `@daily`, and `@every 90m`.

In: a schedule's text and a time zone. Out: its times, or a `ScheduleError` with Kubernetes' message. Fields
are parsed like robfig/cron: names of months and weekdays, ranges, steps, lists; if both days of the month and
weekdays are restricted, one of them suffices.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from kuberth.errors import KuberthError
from kuberth.text.durations import parse_duration

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_WEEKDAYS)}),
)
"""Lowest, highest and names of minute, hour, day of the month, month and weekday."""
_SHORTHANDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_HORIZON_DAYS: Final = 5 * 366
"""A schedule without any day within five years (February 30th) has none at all."""
_NUMBER: Final = re.compile(r"\d{1,9}")


class ScheduleError(KuberthError):
    """An invalid schedule."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron schedule, or a fixed interval."""

    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    either_day: bool = False
    """Whether matching the day of the month or the weekday is enough; otherwise both must match."""
    every_seconds: int = 0

    def after(self, moment: float, zone: datetime.tzinfo = datetime.UTC) -> float | None:
        """The first time after this one, both in seconds since the epoch."""
        if self.every_seconds:
            return float(int(moment) + self.every_seconds)
        start = datetime.datetime.fromtimestamp(moment, zone)
        for count in range(_HORIZON_DAYS):
            day = start.date() + datetime.timedelta(days=count)
            if day.month not in self.months or not self._has_day(day):
                continue
            for hour in self.hours:
                if count == 0 and hour < start.hour:
                    continue
                later = (each for each in self._moments(day, hour, zone) if each > moment)
                if (found := min(later, default=None)) is not None:
                    return found
        return None

    def _has_day(self, day: datetime.date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week

    def _moments(self, day: datetime.date, hour: int, zone: datetime.tzinfo) -> Iterator[float]:
        """Moments of an hour; one that a clock change skips has none, one that it repeats has all twice."""
        for minute in self.minutes:
            for fold in (0, 1):
                local = datetime.datetime(day.year, day.month, day.day, hour, minute, fold=fold, tzinfo=zone)
                seconds = local.timestamp()
                there = datetime.datetime.fromtimestamp(seconds, zone)
                if (there.hour, there.minute) == (hour, minute):
                    yield seconds


def parse_schedule(text: str) -> Schedule:
    """ScheduleError if it is invalid."""
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(_EVERY):
        try:
            seconds = int(parse_duration(text.removeprefix(_EVERY)).total_seconds())
        except ValueError:
            raise ScheduleError(f"failed to parse duration {text}") from None
        return Schedule(every_seconds=max(1, seconds))
    if text.startswith("@"):
        if text not in _SHORTHANDS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _SHORTHANDS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        listed = " ".join(fields)
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{listed}]")
    minutes, hours, days, months, weekdays = (
        _parse_field(field, low, high, names)
        for field, (low, high, names) in zip(fields, _FIELDS, strict=True)
    )
    return Schedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(weekdays),
        either_day=not (_is_free(fields[2]) or _is_free(fields[4])),
    )


def _is_free(field: str) -> bool:
    """Whether a field leaves the day open; as robfig's, one star in a list is enough."""
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _parse_field(field: str, low: int, high: int, names: Mapping[str, int]) -> set[int]:
    found: set[int] = set()
    for part in filter(None, field.split(",")):
        found.update(_parse_range(part, low, high, names))
    return found


def _parse_range(text: str, low: int, high: int, names: Mapping[str, int]) -> range:
    span, slash, step_text = text.partition("/")
    first_text, dash, last_text = span.partition("-")
    if "/" in step_text:
        raise ScheduleError(f"too many slashes: {text}")
    if "-" in last_text:
        raise ScheduleError(f"too many hyphens: {text}")
    if first_text in ("*", "?"):
        first, last = low, high
    else:
        first = _number(first_text, names)
        last = _number(last_text, names) if dash else high if slash else first
    step = _number(step_text, {}) if slash else 1
    if first < low:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({low}): {text}")
    if last > high:
        raise ScheduleError(f"end of range ({last}) above maximum ({high}): {text}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return range(first, last + 1, step)


def _number(text: str, names: Mapping[str, int]) -> int:
    if (named := names.get(text.lower())) is not None:
        return named
    if _NUMBER.fullmatch(text) is None:
        why = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ScheduleError(f"failed to parse int from {text}: {why}")
    return int(text)


def zone_of(name: str | None) -> datetime.tzinfo:
    """A time zone by its IANA name, UTC without one; ScheduleError for an unknown name."""
    if not name:
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None
