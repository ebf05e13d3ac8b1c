from __future__ import annotations

import pytest

from kuberth.text.figures import count, decimal, duration, percent, printable, size


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0s"),
        (0.0001, "0s"),
        (0.0123, "12.3ms"),
        (0.25, "250ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (1.54, "1.5s"),
        (9.99, "10s"),
        (59.7, "1m"),
        (200, "3m 20s"),
        (3600, "1h"),
        (20_220, "5h 37m"),
        (187_200, "2d 4h"),
        (-90, "-1m 30s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    "number, text",
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (12 << 30, "12 GiB"), (5000 << 40, "5000 TiB")],
)
def test_sizes(number: float, text: str) -> None:
    assert size(number) == text


def test_shares_numbers_and_counts() -> None:
    assert (percent(0.973), percent(1, 0), percent(0.00217, 2)) == ("97.3 %", "100 %", "0.22 %")
    assert (decimal(3.0), decimal(2.52)) == ("3", "2.5")
    assert (count(1, "node"), count(0, "node"), count(2, "node")) == ("1 node", "0 nodes", "2 nodes")


def test_printable_text() -> None:
    assert printable("a\x1b[31mb\n") == "a�[31mb�"
    assert printable("a\nb\t", keep="\n", instead=" ") == "a\nb "
