"""Moments as the API writes them, by a clock, and how long ago they were."""

from __future__ import annotations

import datetime
from typing import Any

from kuberth.clock import NANOSECONDS, Clock
from kuberth.text.timestamps import parse_timestamp, timestamp


def stamp(clock: Clock) -> str:
    """Now, to the second: metav1.Time."""
    return timestamp(clock.now_ns())


def micro_stamp(clock: Clock) -> str:
    """Now, to the microsecond: metav1.MicroTime, as leases want it."""
    seconds, rest = divmod(clock.now_ns(), NANOSECONDS)
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"


def seconds_since(text: Any, clock: Clock) -> float:
    """How long ago a timestamp was; one that cannot be read was just now."""
    moment = parse_timestamp(text)
    return 0.0 if moment is None else (clock.now_ns() - moment) / NANOSECONDS
