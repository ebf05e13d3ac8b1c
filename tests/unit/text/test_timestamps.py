from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.wire import MicroTime
from kuberth.clock import NANOSECONDS
from kuberth.testing import FakeClock
from kuberth.text.timestamps import (
    micro_moment,
    micro_stamp,
    moment,
    parse_timestamp,
    seconds_since,
    stamp,
    timestamp,
)

NOW = 1_700_000_000 * NANOSECONDS + 123_456_789
LATEST = int(datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC).timestamp()) * NANOSECONDS


def test_a_moment_in_every_form() -> None:
    clock = FakeClock(NOW)
    assert stamp(clock) == timestamp(NOW) == "2023-11-14T22:13:20Z"
    assert micro_stamp(clock) == "2023-11-14T22:13:20.123456Z"
    assert moment(NOW) == datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    found = micro_moment(NOW, MicroTime)
    assert type(found) is MicroTime
    assert found.microsecond == 123_456
    assert seconds_since("2023-11-14T22:13:10Z", clock) == pytest.approx(10.123456789)
    assert seconds_since("nonsense", clock) == seconds_since(None, clock) == 0.0


@given(st.integers(0, LATEST))
def test_what_is_written_reads_back(now_ns: int) -> None:
    assert parse_timestamp(micro_stamp(FakeClock(now_ns))) == now_ns // 1000 * 1000
    assert parse_timestamp(timestamp(now_ns)) == now_ns // NANOSECONDS * NANOSECONDS
