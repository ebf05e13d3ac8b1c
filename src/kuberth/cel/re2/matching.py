"""Trees to programs, and programs run over texts.

In: a pattern and a text. Out: whether and where it matches: leftmost, and of several the one Perl would find.
All ways are followed at once, so that the work is at most text times program; a budget bounds even that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kuberth.cel.deep_calls import deep_calls
from kuberth.cel.re2.characters import CharacterSet
from kuberth.cel.re2.syntax import (
    Alternatives,
    Assertion,
    Characters,
    PatternError,
    Repeat,
    Sequence,
    Tree,
    read_pattern,
)
from kuberth.cel.values import CostExceeded

_MAX_PROGRAM = 20_000
_MAX_STEPS = 3_000_000

# Instructions: what to do, and up to two places to go on.
_READ, _SPLIT, _JUMP, _ASSERT, _MATCH = range(5)
_Instruction = tuple[int, int, int, "CharacterSet | None", str]


class _Budget:
    """How much work one call may still do."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MAX_STEPS

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise CostExceeded


class Pattern:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self._program: list[_Instruction] = []
        with deep_calls():
            tree = read_pattern(pattern)
            try:
                self._emit(tree)
            except OverflowError as exc:
                raise PatternError("expression too large", pattern[:100]) from exc
        self._add(_MATCH)

    # Compiling

    def _add(
        self, what: int, one: int = 0, other: int = 0, chars: CharacterSet | None = None, kind: str = ""
    ) -> int:
        if len(self._program) >= _MAX_PROGRAM:
            raise OverflowError
        self._program.append((what, one, other, chars, kind))
        return len(self._program) - 1

    def _emit(self, tree: Tree) -> None:
        if isinstance(tree, Characters):
            self._add(_READ, chars=tree.set)
        elif isinstance(tree, Assertion):
            self._add(_ASSERT, kind=tree.kind)
        elif isinstance(tree, Sequence):
            for part in tree.parts:
                self._emit(part)
        elif isinstance(tree, Alternatives):
            self._emit_choice(tree)
        else:
            self._emit_repeat(tree)

    def _emit_choice(self, tree: Alternatives) -> None:
        jumps: list[int] = []
        for option in tree.options[:-1]:
            split = self._add(_SPLIT)
            self._emit(option)
            jumps.append(self._add(_JUMP))
            self._program[split] = (_SPLIT, split + 1, len(self._program), None, "")
        self._emit(tree.options[-1])
        for jump in jumps:
            self._program[jump] = (_JUMP, len(self._program), 0, None, "")

    def _emit_repeat(self, tree: Repeat) -> None:
        for _ in range(tree.least):
            self._emit(tree.part)
        if tree.most < 0:
            split = self._add(_SPLIT)
            self._emit(tree.part)
            self._add(_JUMP, split)
            self._patch_split(split, tree.greedy)
            return
        splits: list[int] = []
        for _ in range(tree.most - tree.least):
            splits.append(self._add(_SPLIT))
            self._emit(tree.part)
        for split in splits:
            self._patch_split(split, tree.greedy)

    def _patch_split(self, split: int, greedy: bool) -> None:
        inside, after = split + 1, len(self._program)
        first, second = (inside, after) if greedy else (after, inside)
        self._program[split] = (_SPLIT, first, second, None, "")

    # Running

    def matches(self, text: str) -> bool:
        """Whether some part of the text matches."""
        return self._search(text, 0, _Budget(), any_will_do=True) is not None

    def find(self, text: str) -> str:
        """The first part that matches; empty if none does."""
        found = self._search(text, 0, _Budget())
        return "" if found is None else text[found[0] : found[1]]

    def find_all(self, text: str, most: int) -> Iterator[str]:
        """The parts that match, one after the other; at most so many unless negative."""
        position, before, count = 0, -1, 0
        budget = _Budget()
        while position <= len(text) and (most < 0 or count < most):
            found = self._search(text, position, budget)
            if found is None:
                return
            start, end = found
            # An empty match right after a match is none.
            if not (start == end == before):
                yield text[start:end]
                count += 1
            position = end if end > position else position + 1
            before = end

    def _search(
        self, text: str, begin: int, budget: _Budget, *, any_will_do: bool = False
    ) -> tuple[int, int] | None:
        program = self._program
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        for position in range(begin, len(text) + 1):
            # Threads in the order of preference; a match cuts off all that come after it.
            current: list[tuple[int, int]] = []
            seen: set[int] = set()
            for place, start in threads:
                self._follow(place, start, text, position, current, seen)
            if found is None:
                self._follow(0, position, text, position, current, seen)
            if not current and found is not None:
                return found
            budget.take(len(seen) + 1)
            threads = []
            char = text[position : position + 1]
            for place, start in current:
                what, _, _, chars, _ = program[place]
                if what == _MATCH:
                    found = (start, position)
                    if any_will_do:
                        return found
                    break
                if char and chars is not None and chars.matches(char):
                    threads.append((place + 1, start))
        return found

    def _follow(
        self,
        place: int,
        start: int,
        text: str,
        position: int,
        current: list[tuple[int, int]],
        seen: set[int],
    ) -> None:
        """All instructions that read or match which can be reached from here without reading."""
        program = self._program
        todo = [place]
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            what, one, other, _, kind = program[place]
            if what == _SPLIT:
                todo.append(other)
                todo.append(one)
            elif what == _JUMP:
                todo.append(one)
            elif what == _ASSERT:
                if _holds(kind, text, position):
                    todo.append(place + 1)
            else:
                current.append((place, start))


def _holds(kind: str, text: str, position: int) -> bool:
    if kind == "start":
        return position == 0
    if kind == "end":
        return position == len(text)
    if kind == "line start":
        return position == 0 or text[position - 1] == "\n"
    if kind == "line end":
        return position == len(text) or text[position] == "\n"
    before = position > 0 and _is_word(text[position - 1])
    after = position < len(text) and _is_word(text[position])
    return (before != after) == (kind == "b")


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Pattern:
    """The pattern, compiled once; raises `PatternError`."""
    return Pattern(pattern)
