"""Semantic versions: semver("1.2.3") and its methods."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from kuberth.cel.costs import first_tenth
from kuberth.cel.declarations import Overload, function, method
from kuberth.cel.values import UINT_MAX, LibraryValue, Value
from kuberth.errors import CelRuntimeError

_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*", re.ASCII)
_DIGITS = re.compile(r"[0-9]*", re.ASCII)


@dataclass(slots=True, eq=False)
class SemverValue(LibraryValue):
    """A semantic version: numbers and pre-release parts; build metadata is ignored."""

    cel_name = "kubernetes.Semver"

    numbers: tuple[int, int, int]
    pre_release: tuple[int | str, ...]

    def same(self, other: SemverValue) -> bool:
        return _compare(self, other) == 0


@lru_cache(maxsize=4096)
def read_version(text: str) -> SemverValue:
    """Parse major.minor.patch strictly; raises `CelRuntimeError` with upstream's message."""
    if not text:
        raise CelRuntimeError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelRuntimeError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "Major", "major")
    minor = _number(parts[1], "Minor", "minor")
    rest, _, build = parts[2].partition("+")
    has_build = "+" in parts[2]
    patch_text, dash, pre_text = rest.partition("-")
    patch = _number(patch_text, "Patch", "patch")
    pre_release: list[int | str] = []
    if dash:
        pre_release = [_pre_release(part) for part in pre_text.split(".")]
    if has_build:
        for part in build.split("."):
            if not part:
                raise CelRuntimeError("Build meta data is empty")
            if not _ALPHANUMERIC.fullmatch(part):
                raise CelRuntimeError(f'Invalid character(s) found in build meta data "{part}"')
    return SemverValue((major, minor, patch), tuple(pre_release))


def _number(text: str, title: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelRuntimeError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise CelRuntimeError(f'{title} number must not contain leading zeroes "{text}"')
    return _read_number(text)


def _read_number(text: str) -> int:
    if not text:
        raise CelRuntimeError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > UINT_MAX:
        raise CelRuntimeError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _pre_release(text: str) -> int | str:
    if not text:
        raise CelRuntimeError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise CelRuntimeError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return _read_number(text)
    if not _ALPHANUMERIC.fullmatch(text):
        raise CelRuntimeError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _read_normalized(text: str) -> SemverValue:
    """The text without a leading v and leading zeroes, and with missing parts added."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("123456789") else f"0{stripped}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelRuntimeError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return read_version(".".join(parts))


def _read(text: str, normalize: bool = False) -> SemverValue:
    return _read_normalized(text) if normalize else read_version(text)


def _is_version(text: str, normalize: bool = False) -> bool:
    try:
        _read(text, normalize)
    except CelRuntimeError:
        return False
    return True


def _compare(one: SemverValue, other: SemverValue) -> int:
    if one.numbers != other.numbers:
        return 1 if one.numbers > other.numbers else -1
    if not one.pre_release or not other.pre_release:  # a release comes after its pre-releases
        return bool(other.pre_release) - bool(one.pre_release)
    for mine, theirs in zip_longest(one.pre_release, other.pre_release):
        if mine == theirs and type(mine) is type(theirs):
            continue
        if mine is None or theirs is None:
            return -1 if mine is None else 1
        if isinstance(mine, int) != isinstance(theirs, int):
            return -1 if isinstance(mine, int) else 1
        return 1 if mine > theirs else -1  # type: ignore[operator]  # both numbers, or both texts
    return 0


def _part(index: int) -> Value:
    def apply(version: SemverValue) -> int:
        number = version.numbers[index]
        return number - 2**64 if number >= 2**63 else number  # upstream converts without a check

    return apply


LIBRARY: tuple[Overload, ...] = (
    function("semver(string) -> Semver", _read, cost=first_tenth),
    function("semver(string, bool) -> Semver", _read, cost=first_tenth),
    function("isSemver(string) -> bool", _is_version, cost=first_tenth),
    function("isSemver(string, bool) -> bool", _is_version, cost=first_tenth),
    method(
        "Semver.isGreaterThan(Semver) -> bool",
        lambda one, other: _compare(one, other) > 0,
    ),
    method(
        "Semver.isLessThan(Semver) -> bool",
        lambda one, other: _compare(one, other) < 0,
    ),
    method("Semver.compareTo(Semver) -> int", _compare),
    method("Semver.major() -> int", _part(0)),
    method("Semver.minor() -> int", _part(1)),
    method("Semver.patch() -> int", _part(2)),
)
