"""Reports problems of an expression.

In: a text, and problems at offsets. Out: kube-scheduler's report: message, line and caret.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

NOWHERE = -1
"""The offset of a problem that concerns the whole text."""

_SHOWN = 100


class Problem(NamedTuple):
    """A message and its offset in the text."""

    offset: int
    message: str


class Source:
    """A text with its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def report(self, problems: list[Problem]) -> str:
        """The problems in the order of the text, each with its line and a caret; only the first are shown."""
        ordered = sorted(problems, key=lambda problem: problem.offset)
        report = "\n".join(self._show(problem) for problem in ordered[:_SHOWN])
        if len(ordered) > _SHOWN:
            report += f"\n{len(ordered) - _SHOWN} more errors were truncated"
        return report

    def _show(self, problem: Problem) -> str:
        if problem.offset == NOWHERE:
            return f"ERROR: <input>:-1:0: {problem.message}"
        index = bisect_right(self._starts, problem.offset) - 1
        column = problem.offset - self._starts[index]
        line = self._lines[index].replace("\t", " ")
        # Under a character of two columns the caret takes two columns.
        caret = "".join("．" if _is_wide(char) else "." for char in line[:column])
        caret += "＾" if _is_wide(line[column : column + 1]) else "^"
        return f"ERROR: <input>:{index + 1}:{column + 1}: {problem.message}\n | {line}\n | {caret}"


def _is_wide(char: str) -> bool:
    return not char.isascii()
