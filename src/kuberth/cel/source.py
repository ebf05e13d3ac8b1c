"""Reports problems of an expression.

In: a text, and problems at offsets. Out: kube-scheduler's report: message, line and caret.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

NOWHERE = -1
"""The offset of a problem that concerns the whole text."""

_MAX_PROBLEMS = 100
"""The maximum number of problems in a report."""


class Problem(NamedTuple):
    """A message and its offset in the text."""

    offset: int
    message: str


def report(text: str, problems: Sequence[Problem]) -> str:
    """The problems in the order of the text, each with its line and a caret; only the first are shown."""
    lines = text.split("\n")
    starts = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    ordered = sorted(problems, key=lambda problem: problem.offset)
    shown = "\n".join(_described(problem, lines, starts) for problem in ordered[:_MAX_PROBLEMS])
    if len(ordered) > _MAX_PROBLEMS:
        shown += f"\n{len(ordered) - _MAX_PROBLEMS} more errors were truncated"
    return shown


def _described(problem: Problem, lines: Sequence[str], starts: Sequence[int]) -> str:
    if problem.offset == NOWHERE:
        return f"ERROR: <input>:-1:0: {problem.message}"
    index = bisect_right(starts, problem.offset) - 1
    column = problem.offset - starts[index]
    line = lines[index].replace("\t", " ")
    # Under a character of two columns the caret takes two columns.
    caret = "".join("．" if _is_wide(char) else "." for char in line[:column])
    caret += "＾" if _is_wide(line[column : column + 1]) else "^"
    return f"ERROR: <input>:{index + 1}:{column + 1}: {problem.message}\n | {line}\n | {caret}"


def _is_wide(char: str) -> bool:
    return not char.isascii()
