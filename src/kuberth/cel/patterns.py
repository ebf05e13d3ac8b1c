"""Regular expressions as Go reads them: RE2's engine with Go's error messages.

In: a pattern. Out: where a text matches it, in time linear in the text; `PatternError` for what Go refuses.
Python's `re` backtracks, so that a selector of twenty characters could block the scheduler for years.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import re2  # type: ignore[import-untyped]  # the wheel brings no type hints

from kuberth.cel.values import WORK

_MAX_MEMORY: Final = 2 << 20
"""Bytes for one pattern's program and states; a pattern that needs more does not compile."""
_MAX_NESTING: Final = 1000
_STEPS_PER_UNIT: Final = 10
"""Instructions that count as one unit of `WORK`. The slowest patterns run 70 million of them a second, so an
evaluation ends after some 100 ms."""

_MESSAGES: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's error messages, and Go's where they differ."""

# Quoted text and classes are matched as a whole, so that nothing inside them counts.
_SYNTAX: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z) | (?P<escape>\\.) | \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]?"
    r" | (?P<open>\((?:\?P?<(?P<name>[^>]*)>)?) | (?P<close>\))",
    re.DOTALL | re.VERBOSE,
)


class PatternError(ValueError):
    """The pattern is not a regular expression that Go compiles."""

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{where}`")


class Pattern:
    """A compiled pattern. Every search takes its steps from `WORK` before it runs."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.max_mem = _MAX_MEMORY
        options.never_capture = True  # only the whole match is needed, and groups make a search slower
        options.log_errors = False
        pattern = _well_formed(pattern)
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as exc:
            problem, _, where = exc.args[0].decode("utf-8", "replace").partition(": ")
            raise PatternError(_MESSAGES.get(problem, problem), where) from exc
        _refuse_what_go_refuses(pattern)
        self._size: int = self._compiled.programsize

    def matches(self, text: str) -> bool:
        """Whether a part of the text matches."""
        self._charge(len(text))
        return self._compiled.search(_well_formed(text)) is not None

    def find(self, text: str) -> str:
        """The leftmost part that matches; empty if none does."""
        return next(self.find_all(text, 1), "")

    def find_all(self, text: str, most: int) -> Iterator[str]:
        """The parts that match, from left to right, at most `most` of them unless that is negative."""
        text = _well_formed(text)
        self._charge(len(text))
        previous_end, count = -1, 0
        found = self._compiled.finditer(text)
        while count != most and (match := next(found, None)) is not None:
            start, end = match.span()
            # Go skips an empty match that touches the match before it.
            if not start == end == previous_end:
                yield text[start:end]
                count += 1
            previous_end = end
            self._charge(len(text) - end)

    def _charge(self, characters: int) -> None:
        WORK.take(1 + characters * self._size // _STEPS_PER_UNIT)


def _well_formed(text: str) -> str:
    """The text with U+FFFD for every half of a surrogate pair, which UTF-8 cannot encode."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse_what_go_refuses(pattern: str) -> None:
    depth = 0
    for found in _SYNTAX.finditer(pattern):
        if found["escape"] == r"\C":
            raise PatternError("invalid escape sequence", r"\C")
        if found["open"]:
            depth += 1
            if depth > _MAX_NESTING:
                raise PatternError("expression nests too deeply", pattern)
            if found["name"] and not found["name"].isascii():
                raise PatternError("invalid named capture", found["open"])
        elif found["close"]:
            depth -= 1


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Compile the pattern, once for equal texts; raises `PatternError`."""
    return Pattern(pattern)
