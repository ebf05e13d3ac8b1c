from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.quantity import Quantity, QuantityFormat, format_quantity, milli_value, parse, value
from kuberth.errors import QuantityError
from tests.unit.api import facts

FACTS = facts.load("quantities")
ACCEPTED = [fact for fact in FACTS if "error" not in fact]
REFUSED = [fact["in"] for fact in FACTS if "error" in fact]


@pytest.mark.parametrize("fact", ACCEPTED, ids=[repr(fact["in"]) for fact in ACCEPTED])
def test_reads_and_prints_as_upstream(fact: dict[str, Any]) -> None:
    quantity = parse(fact["in"])
    assert str(quantity) == fact["string"]
    assert format_quantity(quantity) == fact["canonical"]
    assert value(fact["in"]) == fact["value"]
    assert milli_value(fact["in"]) == fact["milli"]


@pytest.mark.parametrize("text", REFUSED, ids=map(repr, REFUSED))
def test_refuses_as_upstream(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert repr(text) in str(caught.value)
    assert "Ki Mi Gi" in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "whole", "milli"),
    [(2, 2, 2000), (0.1, 1, 100), (1.5, 2, 1500), (-3, -3, -3000), (1e-7, 1, 1), (1e16, 10**16, 0)],
    ids=str,
)
def test_json_numbers(raw: float, whole: int, milli: int) -> None:
    # 1e16 in thousandths does not fit 64 bits; upstream answers zero.
    assert (value(raw), milli_value(raw)) == (whole, milli)


@pytest.mark.parametrize("text", ["1" * 2000, "123456789012345678901e4000", "1" * 5000 + "Ki"], ids=len)
def test_absurd_sizes_are_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="more than"):
        parse(text)


def test_huge_exponents_cost_nothing() -> None:
    huge, tiny = parse("1e2000000000"), parse("1e-2000000000")
    assert tiny == parse("1n")
    assert parse("-1e2000000000") < tiny < huge < parse("2e2000000000") < parse("1e2000000001")
    assert parse("-2e2000000000") < parse("-1e2000000000") < parse("0e2000000000")
    assert huge.value() == 0
    with pytest.raises(QuantityError, match="orders of magnitude"):
        huge + tiny


def test_equal_numbers_are_equal_however_written() -> None:
    same = [parse(text) for text in ("1Ki", "1024", "1.024k", "1024000m", "1024e0", "0.0009765625Mi")]
    assert len(set(same)) == 1
    assert {parse("0"), parse("0Ki"), parse("-0"), parse("0e9")} == {Quantity(0)}
    assert parse("1") != "1"


def test_sums_take_the_format_of_the_first_that_is_not_zero() -> None:
    assert str(parse("1Gi") + parse("512Mi")) == "1536Mi"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("0") + parse("0Ki")) == "0"
    assert str(parse("1Gi") + parse("0")) == "1Gi"
    assert str(parse("1.5") - parse("500m")) == "1"
    assert str(Quantity(1000000, format=QuantityFormat.DECIMAL_EXPONENT)) == "1e6"


def test_products_are_exact_in_the_format_of_the_first() -> None:
    assert str(parse("4Gi") * parse("0.5")) == "2Gi"
    assert str(parse("1500m") * parse("3")) == "4500m"
    assert str(parse("2") * parse("1Ki")) == "2048"
    assert not parse("0") * parse("1Gi")
    assert (parse("9E") * parse("9E")).big


def test_sums_past_64_bits_become_big() -> None:
    big = Quantity(2**63 - 1) + Quantity(1)
    assert big.big
    assert big.mantissa == 2**63


_suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-3", "e+6"]
)
_SCALE = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "e3": Fraction(10**3), "E-3": Fraction(1, 1000), "e+6": Fraction(10**6),
}  # fmt: skip


@st.composite
def _written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A quantity that fits 64 bits in thousandths, and the number it stands for, rounded up to nanos."""
    whole = draw(st.integers(0, 999))
    fraction = draw(st.text("0123456789", max_size=12))
    suffix = draw(_suffixes)
    exact = Fraction(f"{whole}.{fraction or '0'}") * _SCALE[suffix]
    nanos = -((-exact * 10**9).__floor__())
    return f"{whole}.{fraction}{suffix}" if fraction else f"{whole}{suffix}", Fraction(nanos, 10**9)


def _exact(quantity: Quantity) -> Fraction:
    return quantity.mantissa * Fraction(10) ** quantity.exponent


def _ceiling(number: Fraction) -> int:
    return -((-number).__floor__())


@given(_written())
def test_parsing_is_exact_to_the_nano(written: tuple[str, Fraction]) -> None:
    text, exact = written
    assert _exact(parse(text)) == exact


@given(_written())
def test_rounding_is_up(written: tuple[str, Fraction]) -> None:
    text, exact = written
    assert value(text) == _ceiling(exact)
    assert milli_value(text) == _ceiling(exact * 1000)


@given(_written())
def test_printing_round_trips(written: tuple[str, Fraction]) -> None:
    quantity = parse(written[0])
    canonical = format_quantity(quantity)
    assert parse(canonical) == quantity
    assert format_quantity(parse(canonical)) == canonical
    assert "." not in canonical


@given(_written(), _written())
def test_order_hash_and_sum_agree_with_fractions(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    a, b = parse(left[0]), parse(right[0])
    assert (a < b, a == b, a >= b) == (left[1] < right[1], left[1] == right[1], left[1] >= right[1])
    assert a != b or hash(a) == hash(b)
    assert _exact(a + b) == left[1] + right[1]
    assert _exact(a - b) == left[1] - right[1]


@given(st.text("0123456789.+-eEinumkKMGTP ", max_size=12) | st.text(max_size=6))
def test_any_text_parses_or_is_a_quantity_error(text: str) -> None:
    try:
        quantity = parse(text)
    except QuantityError:
        return
    assert -(2**63) <= quantity.value() < 2**63
    assert -(2**63) <= quantity.milli_value() < 2**63
    str(quantity)
