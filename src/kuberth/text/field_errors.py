"""Errors in a configuration, with their paths.

In: problems found while reading, decoding, defaulting and validating.
Out: `FieldError` values, and one `InvalidConfiguration` with all of them, one per line.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kuberth.errors import ConfigError

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_SHOWN = 80


class FieldError(NamedTuple):
    """A problem: the field's path in the file, a sentence, and the value."""

    path: str
    message: str
    value: Any = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class DuplicateKey(FieldError):  # noqa: N818 - reported, not raised
    """A key that is given more than once; `value` is the line of the later one, if lines are known."""

    __slots__ = ()


class InvalidConfiguration(ConfigError):  # noqa: N818 - named for the problem
    """A configuration with at least one problem; `errors` contains all of them.

    `source` is the name of the file, if there is one: in the message, it precedes every problem.
    """

    def __init__(self, errors: Iterable[FieldError], *, source: str = "") -> None:
        self.errors: tuple[FieldError, ...] = tuple(errors)
        title = f"{source}: " if source else ""
        super().__init__("\n".join(f"{title}{error}" for error in self.errors))


class TooLarge(InvalidConfiguration):
    """A document with too many values."""


def child(path: str, key: str) -> str:
    """The path of a field inside `path`; a key with special characters is quoted."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def item(path: str, index: int) -> str:
    return f"{path}[{index}]"


def show(value: Any) -> str:
    """A value as it is written in the file, shortened."""
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, int) and value.bit_length() > 256:
        return "an integer of hundreds of digits"
    if isinstance(value, str | int | float | bool | None):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append to "unknown …" messages; empty if no known name is similar."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {show(by_lower[close[0]])}?" if close else ""
