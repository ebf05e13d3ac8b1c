"""Reads CSV with a header. In: a file. Out: rows whose errors name file, line and column."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from kuberth.errors import ConfigError
from kuberth.text.documents import read_text


class TableRow(NamedTuple):
    """One line."""

    path: Path
    line: int
    columns: Mapping[str, int]
    """The index of each column by its name."""
    cells: Sequence[str]

    def text(self, column: str) -> str:
        return self.cells[self.columns[column]].strip() if column in self.columns else ""

    def number(self, column: str, *, default: float | None = None) -> float:
        """Zero or more; an empty cell is the default."""
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            number = float(text)
        except ValueError:
            self.refuse(column, f"expected a number, got {text!r:.80}")
        if not (math.isfinite(number) and number >= 0):
            self.refuse(column, f"expected zero or more, got {text}")
        return number

    def refuse(self, column: str, problem: str, *, cell: str = "") -> NoReturn:
        """Raise ConfigError about a column. `cell`: the column of the position, if it is another one."""
        position = self.columns.get(cell or column, 0) + 1
        raise ConfigError(f"{self.path}:{self.line}:{position}: {column}: {problem}")


def read_rows(
    path: Path, *, needed: Sequence[str] = (), check: Callable[[Sequence[str]], None] = lambda header: None
) -> Iterator[TableRow]:
    """The lines that are not empty. `check` raises ConfigError for an invalid header."""
    rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, ())]
        check(header)
        columns = {name: number for number, name in enumerate(header)}
        if missing := [name for name in needed if name not in columns]:
            raise ConfigError(f"{path}:1:1: there is no column {', '.join(missing)}; is this the right file?")
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                found = f"{len(cells)} cells where the header has {len(header)}"
                raise ConfigError(f"{path}:{rows.line_num}:{min(len(cells), len(header)) + 1}: {found}")
            yield TableRow(path, rows.line_num, columns, cells)
    except csv.Error as error:
        raise ConfigError(f"{path}:{rows.line_num}:1: this is not CSV: {error}") from error
