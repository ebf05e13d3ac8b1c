"""`python -m hack.diagrams`: draw every diagram of docs/images from its text.

In: text files; the first line is what the picture shows, the rest are boxes of lines, arrows and words.
Out: an SVG beside each, with the same cells: lines where the text has lines, a tinted area for every box, in
light or dark colors as the reader prefers. The same text always gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images"
WIDTH: Final = 8
HEIGHT: Final = 18
"""Of a cell, in pixels."""
MARGIN: Final = 12

UP, DOWN, LEFT, RIGHT = (0, -1), (0, 1), (-1, 0), (1, 0)
_LINES: Final = {
    "─": (LEFT, RIGHT),
    "│": (UP, DOWN),
    "╭": (DOWN, RIGHT),
    "╮": (DOWN, LEFT),
    "╰": (UP, RIGHT),
    "╯": (UP, LEFT),
    "├": (UP, DOWN, RIGHT),
    "┤": (UP, DOWN, LEFT),
    "┬": (DOWN, LEFT, RIGHT),
    "┴": (UP, LEFT, RIGHT),
    "┼": (UP, DOWN, LEFT, RIGHT),
}
_ROUND: Final = "╭╮╰╯"
_ARROWS: Final = {"▶": RIGHT, "◀": LEFT, "▼": DOWN, "▲": UP}
_SIDES: Final = "│├┤┼"
_WORDS: Final = re.compile(
    rf"[^\s{''.join(_LINES)}{''.join(_ARROWS)}]+(?: [^\s{''.join(_LINES)}{''.join(_ARROWS)}]+)*"
)
_STYLE: Final = """\
.back{fill:#fff}.box{fill:#3f51b5;fill-opacity:.07}.line{fill:none;stroke:#5c6bc0;stroke-width:1.4}
.head{fill:#5c6bc0}text{fill:#1d2433;font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
@media(prefers-color-scheme:dark){.back{fill:#1c1f26}.box{fill:#9fa8da;fill-opacity:.11}
.line{stroke:#9fa8da}.head{fill:#9fa8da}text{fill:#e6e8ee}}"""


class Box(NamedTuple):
    """The corners of a box, in cells."""

    left: int
    top: int
    right: int
    bottom: int


class Drawing:
    """A text as a grid of cells."""

    def __init__(self, rows: list[str]) -> None:
        self.width = max(map(len, rows))
        self._rows = [row.ljust(self.width) for row in rows]

    def at(self, x: int, y: int) -> str:
        """The character of a cell; a space outside."""
        return self._rows[y][x] if 0 <= y < len(self._rows) and 0 <= x < self.width else " "

    def cells(self) -> Iterator[tuple[int, int, str]]:
        for y, row in enumerate(self._rows):
            for x, character in enumerate(row):
                yield x, y, character

    def words(self) -> Iterator[tuple[int, int, str]]:
        """Every run of words, with the cell where it starts."""
        for y, row in enumerate(self._rows):
            for found in _WORDS.finditer(row):
                yield found.start(), y, found[0]

    def boxes(self) -> Iterator[Box]:
        """Closed rectangles, outer ones first. Lines may cross the sides, and the top may have a title."""
        for left, top, character in self.cells():
            if character == "╭" and (bottom := self._end_of_side(left, top, "╰")):
                for right in range(left + 1, self.width):
                    if self.at(right, top) == "╮" and self._end_of_side(right, top, "╯") == bottom:
                        yield Box(left, top, right, bottom)
                        break

    def _end_of_side(self, x: int, y: int, corner: str) -> int:
        y += 1
        while self.at(x, y) in _SIDES:
            y += 1
        return y if self.at(x, y) == corner else 0


def svg(text: str) -> str:
    """The picture of a text."""
    title, _, rest = text.strip("\n").partition("\n")
    drawing = Drawing(rest.strip("\n").split("\n"))
    width = drawing.width * WIDTH + 2 * MARGIN
    height = len(rest.strip("\n").split("\n")) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
    ]
    for box in drawing.boxes():
        x, y = _center(box.left, box.top)
        parts.append(
            f'<rect class="box" x="{x:g}" y="{y:g}" width="{(box.right - box.left) * WIDTH}" '
            f'height="{(box.bottom - box.top) * HEIGHT}" rx="6"/>'
        )
    parts.append(f'<path class="line" d="{"".join(_strokes(drawing))}"/>')
    parts.append(f'<path class="head" d="{"".join(_heads(drawing))}"/>')
    for x, y, words in drawing.words():
        left, middle = _center(x, y)
        parts.append(
            f'<text x="{left - WIDTH / 2:g}" y="{middle + 4.5:g}" textLength="{len(words) * WIDTH}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _center(x: int, y: int) -> tuple[float, float]:
    return MARGIN + (x + 0.5) * WIDTH, MARGIN + (y + 0.5) * HEIGHT


def _strokes(drawing: Drawing) -> Iterator[str]:
    for x, y, character in drawing.cells():
        center = _center(x, y)
        if character in _ROUND:
            (ax, ay), (bx, by) = (_edge(center, side) for side in _LINES[character])
            yield f"M{ax:g} {ay:g}Q{center[0]:g} {center[1]:g} {bx:g} {by:g}"
            continue
        for side in _LINES.get(character, ()):
            ex, ey = _edge(center, side, whole=_ends_at(drawing, x, y, side))
            yield f"M{center[0]:g} {center[1]:g}L{ex:g} {ey:g}"
        if character in _ARROWS:
            dx, dy = side = _ARROWS[character]
            sx, sy = _edge(center, side, whole=_ends_at(drawing, x, y, side))
            ex, ey = _edge(center, (-dx, -dy), whole=_ends_at(drawing, x, y, (-dx, -dy)))
            yield f"M{sx - 4 * dx:g} {sy - 4 * dy:g}L{ex:g} {ey:g}"


def _edge(center: tuple[float, float], side: tuple[int, int], *, whole: bool = False) -> tuple[float, float]:
    """Where a line from the center leaves the cell; `whole`: the center of the next cell."""
    share = 1 if whole else 0.5
    return center[0] + side[0] * WIDTH * share, center[1] + side[1] * HEIGHT * share


def _ends_at(drawing: Drawing, x: int, y: int, side: tuple[int, int]) -> bool:
    """Whether the next cell has a line across, at which a line to this side ends."""
    lines = _LINES.get(drawing.at(x + side[0], y + side[1]), ())
    return bool(lines) and (-side[0], -side[1]) not in lines


def _heads(drawing: Drawing) -> Iterator[str]:
    for x, y, character in drawing.cells():
        if character in _ARROWS:
            dx, dy = side = _ARROWS[character]
            cx, cy = _edge(_center(x, y), side, whole=_ends_at(drawing, x, y, side))
            cx, cy = cx - dx, cy - dy  # in front of the line
            yield (
                f"M{cx:g} {cy:g}L{cx - 8 * dx + 4.5 * dy:g} {cy - 8 * dy + 4.5 * dx:g}"
                f"L{cx - 8 * dx - 4.5 * dy:g} {cy - 8 * dy - 4.5 * dx:g}Z"
            )


def main() -> None:
    for source in sorted(FOLDER.glob("*.txt")):
        picture = source.with_suffix(".svg")
        picture.write_text(svg(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
