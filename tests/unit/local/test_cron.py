"""Schedules: what they name, what is none, and that their moments are always later."""

from __future__ import annotations

import contextlib
import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.cron import ScheduleError, parse_schedule, zone_of

START = datetime.datetime(2024, 2, 28, 10, 30, 15, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "schedule, after",
    [
        ("* * * * *", "2024-02-28T10:31"),
        ("*/5 * * * *", "2024-02-28T10:35"),
        ("@hourly", "2024-02-28T11:00"),
        ("@daily", "2024-02-29T00:00"),
        ("@weekly", "2024-03-03T00:00"),
        ("@monthly", "2024-03-01T00:00"),
        ("@yearly", "2025-01-01T00:00"),
        ("15,45 10-12/2 * * *", "2024-02-28T10:45"),
        ("0 9 * * MON-FRI", "2024-02-29T09:00"),
        ("0 0 29 feb *", "2024-02-29T00:00"),
        ("0 0 1 * 4", "2024-02-29T00:00"),  # the first, or a Thursday
        ("0 0 13 * */1", "2024-03-13T00:00"),
        ("30 10 28 2 *", "2025-02-28T10:30"),
        ("5/20 * * * *", "2024-02-28T10:45"),
        ("@every 90s", "2024-02-28T10:31:45"),
    ],
)
def test_next_moment(schedule: str, after: str) -> None:
    found = parse_schedule(schedule).after(START.timestamp())
    assert found == datetime.datetime.fromisoformat(after).replace(tzinfo=datetime.UTC).timestamp()


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 30 2 *").after(START.timestamp()) is None


@pytest.mark.parametrize(
    "schedule, words",
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every never", "failed to parse duration @every never"),
    ],
)
def test_no_schedule(schedule: str, words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(schedule)
    assert str(caught.value) == words


def test_clock_changes() -> None:
    zone = zone_of("Europe/Berlin")

    def moments(schedule: str, start: datetime.datetime, count: int) -> list[str]:
        found, moment = [], start.timestamp()
        for _ in range(count):
            later = parse_schedule(schedule).after(moment, zone)
            assert later is not None
            moment = later
            found.append(datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%m-%dT%H:%M"))
        return found

    # Half past two does not exist on the last Sunday of March, and comes twice on that of October.
    spring = datetime.datetime(2024, 3, 30, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert moments("30 2 * * *", spring, 2) == ["04-01T00:30", "04-02T00:30"]
    autumn = datetime.datetime(2024, 10, 27, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert moments("30 2 * * *", autumn, 3) == ["10-27T00:30", "10-27T01:30", "10-28T01:30"]


def test_no_such_zone() -> None:
    for name in ("Mars/Base", "../etc/passwd", "/etc/passwd", "a\0b"):
        with pytest.raises(ScheduleError):
            zone_of(name)


@given(st.text(alphabet="0123456789*/-,? @adelmnouty", max_size=20), st.integers(0, 4_000_000_000))
def test_any_text(text: str, moment: int) -> None:
    with contextlib.suppress(ScheduleError):
        found = parse_schedule(text).after(moment)
        assert found is None or found > moment
