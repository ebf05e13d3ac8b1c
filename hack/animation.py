"""`python -m hack.animation`: record `kuberth demo` in a terminal, and make the README's animation of it.

In: what the command prints in a pseudo-terminal. Out: docs/images/demo.svg, whose lines appear and scroll as
they do in a terminal. For readers who want no motion, the first screen stands still.
"""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape, unescape
from pathlib import Path
from typing import Final, NamedTuple

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
COLUMNS: Final = 88
ROWS: Final = 22
WIDTH: Final = 8.4
HEIGHT: Final = 19
"""Of a character, in pixels."""
MARGIN: Final = 14
BAR: Final = 30
END_SECONDS: Final = 6.0

_STYLES: Final = {"1;36": "title", "1": "command", "32": "result", "2": "code", "": "text"}
"""By the numbers of the escape sequence."""
_SECONDS: Final = {"title": 1.4, "command": 1.1, "result": 1.0, "code": 0.1, "text": 0.3}
"""How long after the line before a line appears."""
_LINE: Final = re.compile(r"(?:\x1b\[([\d;]+)m)?(.*?)(?:\x1b\[0m)?")
_COLORS: Final = """\
.back{fill:#16181d}.bar{fill:#2a2e37}.text{fill:#d8dbe2}.title{fill:#6fd3e0;font-weight:bold}
.command{fill:#fff;font-weight:bold}.result{fill:#8fd694}.code{fill:#a7adba}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}"""


class Line(NamedTuple):
    """A line of the terminal; all of it has one style."""

    style: str
    text: str


def record() -> str:
    """What `kuberth demo` prints in a terminal of COLUMNS columns."""
    printed = bytearray()

    def read(terminal: int) -> bytes:
        data = os.read(terminal, 1 << 16)
        printed.extend(data)
        return data

    os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
    status = pty.spawn([sys.executable, "-m", "kuberth", "demo", "--no-page", "--pause", "0"], read)
    if status:
        raise SystemExit(f"kuberth demo failed with status {status}")
    return printed.decode()


def lines(printed: str) -> Iterator[Line]:
    """The lines that a terminal shows of it; long ones go on in the next line."""
    for line in printed.replace("\r\n", "\n").strip("\n").split("\n"):
        found = _LINE.fullmatch(line)
        if found is None or "\x1b" in found[2]:
            raise ValueError(f"{line!r} has several styles")
        style, text = _STYLES[found[1] or ""], found[2].rstrip()
        for start in range(0, max(len(text), 1), COLUMNS):
            yield Line(style, text[start : start + COLUMNS])


def svg(shown: Sequence[Line]) -> str:
    """The animation of these lines."""
    width = round(COLUMNS * WIDTH + 2 * MARGIN)
    height = BAR + ROWS * HEIGHT + 2 * MARGIN
    rows = [
        f'<text class="{line.style}" x="{MARGIN}" y="{(number + 0.75) * HEIGHT:g}" '
        f'textLength="{len(line.text) * WIDTH:.0f}">{escape(line.text)}</text>'
        for number, line in enumerate(shown)
        if line.text
    ]
    whole = len(shown) * HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="kuberth demo in a terminal">',
            "<title>kuberth demo in a terminal</title>",
            f"<style>{_COLORS}\n{_motion(shown)}</style>",
            f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
            f'<rect class="bar" width="{width}" height="{BAR}" rx="8"/>',
            f'<text class="code" x="{MARGIN}" y="20">$ kuberth demo</text>',
            f'<svg y="{BAR + MARGIN}" width="{width}" height="{ROWS * HEIGHT}"><g class="roll">',
            *rows,
            f'<rect class="back curtain" width="{width}" height="{whole}"/>',
            "</g></svg></svg>",
            "",
        ]
    )


def _motion(shown: Sequence[Line]) -> str:
    """Keyframes: a curtain below the last line that has appeared, and the roll that keeps it in sight."""
    at = 0.5
    times = []
    for line in shown:
        at += _SECONDS[line.style] if line.text else 0
        times.append(at)
    whole = at + END_SECONDS
    curtain, roll, before = ["0%{transform:translateY(0)}"], ["0%{transform:translateY(0)}"], 0
    for number, moment in enumerate(times, start=1):
        percent = f"{100 * moment / whole:.2f}%"
        curtain.append(f"{percent}{{transform:translateY({number * HEIGHT}px)}}")
        if (shift := max(0, number - ROWS) * HEIGHT) != before:
            roll.append(f"{percent}{{transform:translateY({-shift}px)}}")
            before = shift
    end = len(shown) * HEIGHT
    return (
        f".curtain{{transform:translateY({end}px);animation:curtain {whole:.1f}s step-end infinite}}\n"
        f".roll{{animation:roll {whole:.1f}s step-end infinite}}\n"
        f"@keyframes curtain{{{''.join(curtain)}}}\n@keyframes roll{{{''.join(roll)}}}\n"
        "@media(prefers-reduced-motion:reduce){.curtain,.roll{animation:none}}"
    )


def recorded() -> list[Line]:
    """The lines of the animation as it is now, without empty ones."""
    found = re.findall(
        r'<text class="(\w+)" x="\d+" y="[\d.]+" textLength[^>]*>(.*?)</text>', PICTURE.read_text("utf-8")
    )
    return [Line(style, unescape(text)) for style, text in found]


def main() -> None:
    PICTURE.write_text(svg(list(lines(record()))), encoding="utf-8")


if __name__ == "__main__":
    main()
