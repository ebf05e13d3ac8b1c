"""Shows how far a simulation is, on standard error.

In: the number of pods or runs that are done, and the virtual time. Out: a bar on a terminal; elsewhere, as in
the log of a CI job, a line every few seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kuberth.clock import NANOSECONDS, Clock, SystemClock
from kuberth.text.figures import duration

LINE_SECONDS: Final = 5.0
BAR_SECONDS: Final = 0.1
"""Shortest time between two lines, and between two states of a bar."""

Show = Callable[[int, float], None]
"""Called with the number that is done, and the virtual time (s) or 0."""


@contextmanager
def shown_progress(what: str, total: int) -> Iterator[Show]:
    if not sys.stderr.isatty():
        yield Throttle(partial(_print_line, what, total), LINE_SECONDS, clock=SystemClock()).show
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[time]}"))
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total or None, time="")

        def show(done: int, seconds: float) -> None:
            progress.update(task, completed=done, time=_simulated(seconds))

        yield Throttle(show, BAR_SECONDS, clock=SystemClock()).show


class Throttle:
    """Passes on what it is called with, unless the last time was less than `seconds` ago."""

    def __init__(self, show: Show, seconds: float, *, clock: Clock) -> None:
        self._show = show
        self._least_ns = seconds * NANOSECONDS
        self._clock = clock
        self._last_ns = clock.now_ns()

    def show(self, done: int, seconds: float) -> None:
        now = self._clock.now_ns()
        if now - self._last_ns >= self._least_ns:
            self._last_ns = now
            self._show(done, seconds)


def _print_line(what: str, total: int, done: int, seconds: float) -> None:
    parts = [f"{done} of {total} {what}"] if total else []
    parts += [_simulated(seconds)] if seconds else []
    click.echo(f"kuberth simulate: {', '.join(parts)}", err=True)


def _simulated(seconds: float) -> str:
    return f"{duration(seconds)} simulated" if seconds else ""
