"""Resource quantities ("500m", "1.5Gi", "1e3"), parsed and rounded exactly as in Kubernetes.

In: the raw value of a resource list. Out: integers (`value`, `milli_value`) for the columns, or an
exact `Quantity` to add and compare before rounding. Parsing is cached by text.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

from kuberth.api.references import QuantityValue
from kuberth.errors import QuantityError

_INT64_MAX = 2**63 - 1
_NANO = -9
# No real quantity has more digits than this, and expanding 10**exponent could take unlimited memory.
_MAX_EXPANSION = 1000
_CACHE_SIZE = 1 << 16

_SHAPE = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)")
_ALLOWED = (
    "a quantity is a decimal number with an optional suffix: one of n u m k M G T P E, one of "
    "Ki Mi Gi Ti Pi Ei, or an exponent such as e3 or E-3"
)


class QuantityFormat(enum.Enum):
    """The family of suffixes with which a quantity is written and printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_BY_EXPONENT = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The exact number `mantissa * 10**exponent`; only the number counts in equality, order and hash.

    Kubernetes stores small numbers in 64 bits and others as big decimals, which round and overflow
    differently; `big` is True for the latter. `text` is the original spelling, stored only if Kubernetes
    would print it unchanged.
    """

    mantissa: int
    exponent: int = 0
    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    big: bool = False
    text: str = ""

    def value(self) -> int:
        """The number rounded away from zero to an int64, with upstream's overflow."""
        return self._scaled(0)

    def milli_value(self) -> int:
        """A thousand times the number, rounded away from zero to an int64, with upstream's overflow."""
        return self._scaled(-3)

    def _scaled(self, scale: int) -> int:
        if self.big:
            return _scale_big(self.mantissa, self.exponent - scale)
        return _scale_small(self.mantissa, self.exponent - scale)

    def __add__(self, other: Quantity) -> Quantity:
        if other.mantissa == 0:
            if self.mantissa == 0:
                return Quantity(0, self.exponent, other.format, self.big or other.big)
            return Quantity(self.mantissa, self.exponent, self.format, self.big or other.big)
        if self.mantissa == 0:
            return Quantity(other.mantissa, other.exponent, other.format, self.big or other.big)
        exponent = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - exponent > _MAX_EXPANSION:
            raise QuantityError(f"cannot add {self} and {other}: they are too many orders of magnitude apart")
        mantissa = self.mantissa * 10 ** (self.exponent - exponent)
        mantissa += other.mantissa * 10 ** (other.exponent - exponent)
        big = self.big or other.big or not -_INT64_MAX - 1 <= mantissa <= _INT64_MAX
        return Quantity(mantissa, exponent, self.format, big)

    def __neg__(self) -> Quantity:
        return Quantity(-self.mantissa, self.exponent, self.format, self.big)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __mul__(self, other: Quantity) -> Quantity:
        """The exact product, a big decimal as upstream, in the format of the first factor."""
        return Quantity(self.mantissa * other.mantissa, self.exponent + other.exponent, self.format, True)

    def __bool__(self) -> bool:
        return self.mantissa != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self._compare(other) < 0

    def __hash__(self) -> int:
        mantissa, exponent = _strip(self.mantissa, 10)
        return hash((mantissa, exponent + self.exponent if mantissa else 0))

    def _compare(self, other: Quantity) -> int:
        left, right = self.mantissa, other.mantissa
        gap = self.exponent - other.exponent
        # Compare magnitudes first, so that 1e2000000000 is never expanded.
        if abs(gap) > _MAX_EXPANSION and left and right:
            if (left < 0) != (right < 0):
                return -1 if left < 0 else 1
            longer = len(str(abs(left))) + gap - len(str(abs(right)))
            if longer:
                return 1 if (longer > 0) == (left > 0) else -1
        if not left or not right:
            gap = 0
        if gap > 0:
            left *= 10**gap
        elif gap < 0:
            right *= 10**-gap
        return (left > right) - (left < right)

    def __str__(self) -> str:
        return self.text or _canonical(self)


def parse(quantity: QuantityValue) -> Quantity:
    """Parse a quantity exactly; QuantityError for what Kubernetes rejects."""
    return _parse_text(quantity if isinstance(quantity, str) else repr(quantity))


@lru_cache(maxsize=_CACHE_SIZE)
def value(quantity: QuantityValue) -> int:
    """The quantity in whole units, rounded away from zero (bytes, counts)."""
    return parse(quantity).value()


@lru_cache(maxsize=_CACHE_SIZE)
def milli_value(quantity: QuantityValue) -> int:
    """The quantity in thousandths, rounded away from zero (milli-CPU)."""
    return parse(quantity).milli_value()


def format_quantity(quantity: QuantityValue | Quantity) -> str:
    """The canonical text: no fraction, and the largest suffix without loss."""
    return _canonical(quantity if isinstance(quantity, Quantity) else parse(quantity))


@lru_cache(maxsize=_CACHE_SIZE)
def _parse_text(text: str) -> Quantity:
    shape = _SHAPE.fullmatch(text)
    if not text or shape is None:
        raise QuantityError(f"cannot read quantity {text!r}: {_ALLOWED}")
    sign, whole, fraction, suffix = shape.groups("")
    whole = whole or "0"
    family, power = _read_suffix(text, suffix)
    digits = whole + fraction
    negative = sign == "-"

    if family is not QuantityFormat.BINARY_SI:
        exponent = power - len(fraction)
        if len(digits) <= 18 and exponent >= _NANO:
            mantissa = -int(digits) if negative else int(digits)
            kept = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
            return Quantity(mantissa, exponent, family, False, text if kept else "")
    elif not fraction and 15 - len(whole) - power * 3 // 10 - 1 >= 0:
        mantissa = -int(digits) if negative else int(digits)
        kept = mantissa % 8 != 0
        return Quantity(mantissa << power, 0, family, False, text if kept else "")
    if text in (sign + suffix, f"{sign}.{suffix}"):
        raise QuantityError(f"cannot read quantity {text!r}: it has no digits; {_ALLOWED}")
    return _read_big(text, digits, -len(fraction), family=family, power=power, negative=negative)


def _read_suffix(text: str, suffix: str) -> tuple[QuantityFormat, int]:
    if suffix in _DECIMAL_SUFFIXES:
        return QuantityFormat.DECIMAL_SI, _DECIMAL_SUFFIXES[suffix]
    if suffix in _BINARY_SUFFIXES:
        return QuantityFormat.BINARY_SI, _BINARY_SUFFIXES[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    # 64 bits have at most 19 digits, so more (after leading zeros) cannot be an exponent.
    if exponent is None or len(exponent.group(1).lstrip("+-0")) > 19:
        raise QuantityError(f"cannot read quantity {text!r}: unknown suffix {suffix!r}; {_ALLOWED}")
    power = int(exponent.group(1))
    if not -_INT64_MAX - 1 <= power <= _INT64_MAX:
        raise QuantityError(f"cannot read quantity {text!r}: exponent out of range; {_ALLOWED}")
    # Upstream stores exponents in 32 bits, and larger ones wrap.
    return QuantityFormat.DECIMAL_EXPONENT, _wrap(power, 32)


def _read_big(
    text: str, digits: str, exponent: int, *, family: QuantityFormat, power: int, negative: bool
) -> Quantity:
    """A big decimal of upstream: rounded to the nano, away from zero; binary ones are capped."""
    if len(digits) > _MAX_EXPANSION or power > _MAX_EXPANSION:
        raise QuantityError(f"cannot read quantity {text[:40]!r}...: more than {_MAX_EXPANSION} digits")
    mantissa = int(digits)
    if family is QuantityFormat.BINARY_SI:
        mantissa <<= power
    else:
        exponent += power
    if mantissa == 0:
        return Quantity(0, 0, family, True)
    if exponent >= _NANO:
        mantissa *= 10 ** (exponent - _NANO)
    elif _NANO - exponent >= len(digits) + 20:  # more decimal places than a suffix can add digits
        mantissa = 1
    else:
        mantissa = -(-mantissa // 10 ** (_NANO - exponent))
    exponent = _NANO
    if family is QuantityFormat.BINARY_SI:
        if mantissa > _INT64_MAX * 10**9:
            mantissa, exponent = _INT64_MAX, 0
        elif mantissa < 10**9:
            family = QuantityFormat.DECIMAL_SI
    return Quantity(-mantissa if negative else mantissa, exponent, family, True)


def _scale_small(mantissa: int, exponent: int) -> int:
    if exponent < 0:
        if -exponent > 19:
            return (mantissa > 0) - (mantissa < 0)
        divisor: int = 10**-exponent
        scaled = -(-abs(mantissa) // divisor)
        return scaled if mantissa >= 0 else -scaled
    if mantissa == 0:
        return 0
    # For these powers, upstream multiplies in one step, which wraps on overflow; for others it multiplies by
    # ten repeatedly, detects the overflow and returns zero.
    if exponent in (0, 1, 2, 3, 6, 9):
        return _wrap(mantissa * 10**exponent, 64)
    if exponent > 19:
        return 0
    scaled = mantissa * 10**exponent
    return scaled if -_INT64_MAX - 1 <= scaled <= _INT64_MAX else 0


def _scale_big(mantissa: int, exponent: int) -> int:
    if exponent >= 0:
        return _wrap(mantissa * 10 ** min(exponent, 64), 64)  # 10**64 is a multiple of 2**64
    divisor: int = 10**-exponent
    if mantissa < _INT64_MAX and -exponent < 19:
        # As upstream: cut to 64 bits, divide towards zero, add one for any remainder. For negative numbers,
        # this is neither floor nor ceiling.
        cut = _wrap(mantissa, 64)
        quotient = abs(cut) // divisor
        quotient = quotient if cut >= 0 else -quotient
        return quotient + 1 if cut % divisor else quotient
    quotient, remainder = divmod(mantissa, divisor)
    return _wrap(quotient + (1 if remainder else 0), 64)


def _canonical(quantity: Quantity) -> str:
    mantissa, exponent, family = quantity.mantissa, quantity.exponent, quantity.format
    if mantissa == 0:
        return "0"
    if family is QuantityFormat.BINARY_SI:
        whole = _as_whole(mantissa, exponent)
        if whole is not None and abs(whole) >= 1024:
            number, times = _strip(whole, 1024)
            return f"{number}{_BINARY_BY_EXPONENT.get(times * 10, '')}"
        family = QuantityFormat.DECIMAL_SI  # small or fractional: decimal is exact
    number, times = _strip(mantissa, 10)
    power = exponent + times
    number *= 10 ** (power % 3)
    power -= power % 3
    if family is QuantityFormat.DECIMAL_EXPONENT:
        return f"{number}e{power}" if power else str(number)
    # There is no suffix beyond exa, and upstream prints none: 1000E is printed as 1. The same here, so that
    # the output is that of the cluster.
    return f"{number}{_DECIMAL_BY_EXPONENT.get(power, '')}"


def _as_whole(mantissa: int, exponent: int) -> int | None:
    if exponent >= 0:
        return mantissa * int(10**exponent)
    whole, remainder = divmod(mantissa, 10**-exponent)
    return None if remainder else whole


def _strip(number: int, factor: int) -> tuple[int, int]:
    """Divide `number` by `factor` as often as possible; returns the quotient and the number of divisions."""
    times = 0
    while number and number % factor == 0:
        number //= factor
        times += 1
    return number, times


def _wrap(number: int, bits: int) -> int:
    """`number` as a two's complement integer of that many bits."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half
