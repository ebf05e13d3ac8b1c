from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.text.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    "text, seconds, printed",
    [
        pytest.param("15s", 15, "15s", id="seconds"),
        pytest.param("1m30s", 90, "1m30s", id="compound"),
        pytest.param("600s", 600, "10m0s", id="minutes-keep-their-seconds"),
        pytest.param("1h", 3600, "1h0m0s", id="hours-keep-their-minutes"),
        pytest.param("1.5s", 1.5, "1.5s", id="fraction"),
        pytest.param(".5s", 0.5, "500ms", id="leading-point"),
        pytest.param("250ms", 0.25, "250ms", id="milliseconds"),
        pytest.param("7us", 0.000007, "7µs", id="micro"),
        pytest.param("7µs", 0.000007, "7µs", id="micro-sign"),
        pytest.param("-3s", -3, "-3s", id="negative"),
        pytest.param("0", 0, "0s", id="bare-zero"),
        pytest.param("1ns", 0.000001, "1µs", id="never-rounded-to-zero"),
    ],
)
def test_parse_and_format(text: str, seconds: float, printed: str) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert format_duration(parse_duration(text)) == printed


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "1 s", "1s2", "--1s", ".s", "1e3s", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


def test_more_than_64_bits_of_nanoseconds() -> None:
    assert parse_duration("2562047h") == timedelta(hours=2562047)
    with pytest.raises(ValueError, match="292 years"):
        parse_duration("2562048h")


@given(st.timedeltas(min_value=timedelta(days=-100_000), max_value=timedelta(days=100_000)))
def test_round_trip(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
