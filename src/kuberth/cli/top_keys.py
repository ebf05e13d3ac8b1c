"""Reads keys from a terminal, and restores the terminal afterwards.

In: a terminal. Out: names of keys, inside the `with` block.
"""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

_NAMED: Final = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x04": "q",
}
_SEQUENCES: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "Z": "tab",
}
_ESCAPE: Final = "\x1b"


def decode_keys(text: str) -> Iterator[str]:
    """Names of the keys in a chunk of terminal input; unknown keys are left out."""
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter != _ESCAPE:
            if letter in _NAMED:
                yield _NAMED[letter]
            elif letter.isprintable():
                yield letter
            continue
        if at >= len(text) or text[at] not in "[O":
            yield "escape"
            continue
        end = at + 1
        while end < len(text) and not ("@" <= text[end] <= "~"):
            end += 1
        name = _SEQUENCES.get(text[at + 1 : end + 1])
        at = end + 1
        if name is not None:
            yield name


@contextmanager
def keys_of(descriptor: int, press: Callable[[str], None]) -> Iterator[None]:
    """Call `press` for every key; the end of the input counts as q."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def ready() -> None:
        try:
            data = os.read(descriptor, 1024)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            loop.remove_reader(descriptor)
            press("q")
        for key in decode_keys(data.decode(errors="ignore")):
            press(key)

    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        # No Ctrl-Z: the shell would be left with the screen of this program.
        mode = termios.tcgetattr(descriptor)
        mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(descriptor, termios.TCSANOW, mode)
        loop.add_reader(descriptor, ready)
        yield
    finally:
        loop.remove_reader(descriptor)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
