"""Sets of characters: what a class, a dot or a letter matches."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

Range = tuple[int, int]
Test = Callable[[str], bool]

_LAST = 0x10FFFF
DIGITS: tuple[Range, ...] = ((48, 57),)
SPACES: tuple[Range, ...] = ((9, 10), (12, 13), (32, 32))
WORDS: tuple[Range, ...] = ((48, 57), (65, 90), (95, 95), (97, 122))
POSIX: dict[str, tuple[Range, ...]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CATEGORIES = frozenset(
    {
        *("C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn"),
        *("N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps"),
        *("S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"),
    }
)
# Scripts by the words that their characters' names begin with; Python has no other table of them.
_SCRIPTS = {
    name: (name.upper(),)
    for name in (
        *("Arabic", "Armenian", "Bengali", "Cherokee", "Coptic", "Cyrillic", "Devanagari", "Ethiopic"),
        *("Georgian", "Gothic", "Greek", "Gujarati", "Gurmukhi", "Hangul", "Hebrew", "Hiragana"),
        *("Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar"),
        *("Ogham", "Oriya", "Runic", "Sinhala", "Syriac", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan"),
    )
} | {"Han": ("CJK UNIFIED", "CJK COMPATIBILITY", "CJK RADICAL", "KANGXI"), "Bopomofo": ("BOPOMOFO",)}
_FOLDS = {"k": "\u212a", "K": "\u212a", "\u212a": "k", "s": "\u017f", "S": "\u017f", "\u017f": "s"}


def property_test(name: str) -> Test | None:
    """Whether a character has the Unicode property; None for a property nobody knows."""
    if name == "Any":
        return lambda _char: True
    if name in _CATEGORIES:
        return lambda char: unicodedata.category(char).startswith(name)
    words = _SCRIPTS.get(name)
    if words is None:
        return None
    return lambda char: unicodedata.name(char, "").startswith(words)


class CharacterSet:
    """Ranges and properties, perhaps without regard to case, perhaps the complement of it all."""

    __slots__ = ("_known", "_negated", "_ranges", "_tests", "_variants")

    def __init__(
        self,
        ranges: Iterable[Range] = (),
        tests: Iterable[Test] = (),
        *,
        negated: bool = False,
        fold: bool = False,
    ) -> None:
        self._ranges = tuple(ranges)
        self._tests = tuple(tests)
        self._negated = negated
        self._variants = _variants if fold else None
        self._known: dict[str, bool] = {}

    def matches(self, char: str) -> bool:
        known = self._known.get(char)
        if known is None:
            known = self._holds(char) != self._negated
            self._known[char] = known
        return known

    def _holds(self, char: str) -> bool:
        if self._variants is None:
            return self._has(char)
        return any(self._has(variant) for variant in self._variants(char))

    def _has(self, char: str) -> bool:
        code = ord(char)
        return any(low <= code <= high for low, high in self._ranges) or any(
            test(char) for test in self._tests
        )


def _variants(char: str) -> tuple[str, ...]:
    forms = {char, char.lower(), char.upper(), _FOLDS.get(char, char)}
    forms |= {form.lower() for form in forms} | {form.upper() for form in forms}
    return tuple(form for form in forms if len(form) == 1)


def complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All other characters."""
    out: list[Range] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            out.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _LAST:
        out.append((start, _LAST))
    return tuple(out)
