"""Patterns to trees.

In: the text of a pattern in RE2's syntax (Perl's, without what needs backtracking). Out: its tree, or
`PatternError` in Go's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kuberth.cel.re2.characters import (
    DIGITS,
    POSIX,
    SPACES,
    WORDS,
    CharacterSet,
    Range,
    Test,
    complement,
    property_test,
)

MAX_REPEAT = 1000
_MAX_NESTING = 1000
_REPEAT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII)
_GROUP_NAME = re.compile(r"\(\?P?<([^>]*)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:(-)([imsU]+))?([:)])", re.ASCII)
_SIMPLE_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_CLASS_ESCAPES = {"d": DIGITS, "s": SPACES, "w": WORDS}


class PatternError(ValueError):
    """The pattern is none that RE2 reads."""

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{where}`")


class Characters(NamedTuple):
    """One character of a set."""

    set: CharacterSet


class Assertion(NamedTuple):
    """A place: start, end, line start, line end, word boundary (b) or none (B)."""

    kind: str


class Sequence(NamedTuple):
    """One after the other."""

    parts: tuple[Tree, ...]


class Alternatives(NamedTuple):
    """One of several, the first that leads to a match."""

    options: tuple[Tree, ...]


class Repeat(NamedTuple):
    """`least` to `most` times (-1: no limit), as often as possible if greedy."""

    part: Tree
    least: int
    most: int
    greedy: bool


Tree = Characters | Assertion | Sequence | Alternatives | Repeat


class _Group:
    """A group being read: the options before the last bar, and the parts since."""

    __slots__ = ("flags", "options", "parts", "text")

    def __init__(self, flags: frozenset[str], text: str) -> None:
        self.flags = flags  # to go back to when the group ends
        self.text = text
        self.options: list[Tree] = []
        self.parts: list[Tree] = []

    def close(self) -> Tree:
        last: Tree = self.parts[0] if len(self.parts) == 1 else Sequence(tuple(self.parts))
        return Alternatives((*self.options, last)) if self.options else last


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags: frozenset[str] = frozenset()

    def read(self) -> Tree:
        pattern = self._pattern
        groups = [_Group(self._flags, "")]
        repeated = ""  # the text of the repetition just read: another must not follow
        while self._position < len(pattern):
            char = pattern[self._position]
            group = groups[-1]
            start = self._position
            if char in "*+?" or (char == "{" and _REPEAT.match(pattern, start)):
                self._repeat(group, repeated)
                repeated = repeated + pattern[start : self._position]
                continue
            repeated = ""
            if char == "(":
                self._open(groups)
            elif char == ")":
                self._position += 1
                if len(groups) == 1:
                    raise PatternError("unexpected )", pattern)
                groups.pop()
                self._flags = group.flags
                groups[-1].parts.append(group.close())
            elif char == "|":
                self._position += 1
                group.options.append(Sequence(tuple(group.parts)))
                group.parts = []
            else:
                self._atom(group, char)
        if len(groups) > 1:
            raise PatternError("missing closing )", pattern)
        return groups[0].close()

    # Parts

    def _atom(self, group: _Group, char: str) -> None:
        if char == "[":
            group.parts.append(Characters(self._class()))
        elif char == "\\":
            self._escape(group)
        else:
            self._position += 1
            if char == ".":
                ranges = ((0, 0x10FFFF),) if "s" in self._flags else complement([(10, 10)])
                group.parts.append(Characters(CharacterSet(ranges)))
            elif char == "^":
                group.parts.append(Assertion("line start" if "m" in self._flags else "start"))
            elif char == "$":
                group.parts.append(Assertion("line end" if "m" in self._flags else "end"))
            else:
                group.parts.append(self._literal(ord(char)))

    def _literal(self, code: int) -> Tree:
        return Characters(CharacterSet(((code, code),), fold="i" in self._flags))

    def _open(self, groups: list[_Group]) -> None:
        pattern, start = self._pattern, self._position
        if len(groups) > _MAX_NESTING:
            raise PatternError("expression nests too deeply", pattern)
        if not pattern.startswith("(?", start):
            self._position += 1
            groups.append(_Group(self._flags, pattern[start:]))
            return
        if pattern.startswith(("(?P<", "(?<"), start) and pattern[start + 3 : start + 4] not in ("=", "!"):
            self._open_named(groups)
            return
        found = _FLAGS.match(pattern, start)
        if found is None:
            problem = "invalid or unsupported Perl syntax"
            raise PatternError(problem, pattern[start : start + 3])
        before = self._flags
        self._flags = (before | frozenset(found[1])) - frozenset(found[3] or "")
        self._position = found.end()
        if found[4] == ":":
            groups.append(_Group(before, pattern[start:]))

    def _open_named(self, groups: list[_Group]) -> None:
        pattern, start = self._pattern, self._position
        found = _GROUP_NAME.match(pattern, start)
        if found is None or not re.fullmatch(r"[A-Za-z0-9_]+", found[1]):
            raise PatternError("invalid named capture", found[0] if found else pattern[start:])
        self._position = found.end()
        groups.append(_Group(self._flags, pattern[start:]))

    def _repeat(self, group: _Group, repeated: str) -> None:
        pattern, start = self._pattern, self._position
        char = pattern[start]
        least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}.get(char, (0, 0))
        self._position += 1
        if char == "{":
            found = _REPEAT.match(pattern, start)
            assert found is not None
            self._position = found.end()
            # Longer numbers are too large anyway, and Python refuses to read very long ones.
            least = int(found[1][:5])
            most = least if not found[2] else int(found[3][:5]) if found[3] else -1
            if least > MAX_REPEAT or most > MAX_REPEAT or 0 <= most < least:
                raise PatternError("invalid repeat count", found[0])
        greedy = "U" not in self._flags
        if pattern[self._position : self._position + 1] == "?":
            self._position += 1
            greedy = not greedy
        text = pattern[start : self._position]
        if repeated:
            raise PatternError("invalid nested repetition operator", repeated + text)
        if not group.parts:
            raise PatternError("missing argument to repetition operator", text)
        part = Repeat(group.parts.pop(), least, most, greedy)
        if char == "{" and not _few_repeats(part, MAX_REPEAT):
            raise PatternError("invalid repeat count", text)
        group.parts.append(part)

    def _escape(self, group: _Group) -> None:
        pattern, start = self._pattern, self._position
        char = pattern[start + 1 : start + 2]
        if char == "Q":
            end = pattern.find("\\E", start + 2)
            quoted = pattern[start + 2 : end] if end >= 0 else pattern[start + 2 :]
            self._position = end + 2 if end >= 0 else len(pattern)
            group.parts.extend(self._literal(ord(one)) for one in quoted)
        elif char in ("A", "z", "b", "B"):
            self._position += 2
            group.parts.append(Assertion({"A": "start", "z": "end"}.get(char, char)))
        elif char in ("p", "P"):
            test = self._property()
            group.parts.append(Characters(CharacterSet((), (test,), fold="i" in self._flags)))
        elif char and char.lower() in _CLASS_ESCAPES:
            self._position += 2
            ranges = _CLASS_ESCAPES[char.lower()]
            ranges = complement(ranges) if char.isupper() else ranges
            group.parts.append(Characters(CharacterSet(ranges, fold="i" in self._flags)))
        else:
            group.parts.append(self._literal(self._escaped_code()))

    def _escaped_code(self) -> int:
        pattern, start = self._pattern, self._position
        char = pattern[start + 1 : start + 2]
        self._position += 2
        if not char:
            raise PatternError("trailing backslash at end of expression", "")
        if char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char]
        rest = pattern[self._position :][:12]
        if char in "01234567" and (char == "0" or rest[:1] in tuple("01234567")):
            digits = char
            for one in rest[:2]:
                if one not in "01234567":
                    break
                digits += one
            self._position += len(digits) - 1
            return int(digits, 8)
        if char == "x":
            found = re.match(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\}", rest)
            if found is not None and int(found[1] or found[2], 16) <= 0x10FFFF:
                self._position += found.end()
                return int(found[1] or found[2], 16)
        elif char.isascii() and not char.isalnum():
            return ord(char)
        raise PatternError("invalid escape sequence", pattern[start : start + 2])

    def _property(self) -> Test:
        r"""\pN, \p{Name}, \P{Name}, \p{^Name}"""
        pattern, start = self._pattern, self._position
        negated = pattern[start + 1] == "P"
        name = pattern[start + 2 : start + 3]
        end = start + 3
        if name == "{":
            closing = pattern.find("}", start)
            if closing < 0:
                raise PatternError("invalid character class range", pattern[start:])
            name, end = pattern[start + 3 : closing], closing + 1
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        test = property_test(name)
        if test is None:
            raise PatternError("invalid character class range", pattern[start:end])
        self._position = end
        if negated:
            return lambda char: not test(char)
        return test

    # Classes in brackets

    def _class(self) -> CharacterSet:
        pattern, start = self._pattern, self._position
        self._position += 1
        negated = pattern[self._position : self._position + 1] == "^"
        self._position += negated
        ranges: list[Range] = []
        tests: list[Test] = []
        first = True
        while first or pattern[self._position : self._position + 1] != "]":
            if self._position >= len(pattern):
                raise PatternError("missing closing ]", pattern[start:])
            first = False
            if not self._class_item(ranges, tests):
                low = self._class_code(start)
                high = low
                following = pattern[self._position : self._position + 2]
                if len(following) == 2 and following[0] == "-" and following[1] != "]":
                    self._position += 1
                    high = self._class_code(start)
                    if high < low:
                        raise PatternError("invalid character class range", f"{chr(low)}-{chr(high)}")
                ranges.append((low, high))
        self._position += 1
        return CharacterSet(ranges, tests, negated=negated, fold="i" in self._flags)

    def _class_item(self, ranges: list[Range], tests: list[Test]) -> bool:
        """[:alpha:], \\d, \\pL: a set within the set."""
        pattern, start = self._pattern, self._position
        if pattern.startswith("[:", start):
            end = pattern.find(":]", start + 2)
            if end >= 0:
                name = pattern[start + 2 : end]
                found = POSIX.get(name.removeprefix("^"))
                if found is None:
                    raise PatternError("invalid character class range", pattern[start : end + 2])
                ranges.extend(complement(found) if name.startswith("^") else found)
                self._position = end + 2
                return True
        if pattern[start] != "\\":
            return False
        char = pattern[start + 1 : start + 2]
        if char in ("p", "P"):
            tests.append(self._property())
            return True
        if char and char.lower() in _CLASS_ESCAPES:
            found = _CLASS_ESCAPES[char.lower()]
            ranges.extend(complement(found) if char.isupper() else found)
            self._position += 2
            return True
        return False

    def _class_code(self, start: int) -> int:
        if self._position >= len(self._pattern):
            raise PatternError("missing closing ]", self._pattern[start:])
        if self._pattern[self._position] == "\\":
            return self._escaped_code()
        self._position += 1
        return ord(self._pattern[self._position - 1])


def _few_repeats(tree: Tree, most: int) -> bool:
    """Whether repetitions within repetitions stay below the limit when multiplied."""
    todo: list[tuple[Tree, int]] = [(tree, most)]
    while todo:
        one, left = todo.pop()
        if isinstance(one, Repeat):
            count = one.most if one.most >= 0 else one.least
            # Stars and pluses do not count, only braces do.
            if (one.least, one.most) not in ((0, -1), (1, -1), (0, 1)):
                if count == 0:
                    continue
                if count > left:
                    return False
                left //= count
            todo.append((one.part, left))
        else:
            todo.extend((part, left) for part in _parts(one))
    return True


def _parts(tree: Tree) -> Iterable[Tree]:
    if isinstance(tree, Sequence):
        return tree.parts
    return tree.options if isinstance(tree, Alternatives) else ()


def read_pattern(pattern: str) -> Tree:
    return _Reader(pattern).read()
