"""Tables as published traces have them: CSV with a header. Out: rows that name file, line and column."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from kuberth.errors import ConfigError
from kuberth.text.documents import read_text


class TableRow:
    """One line."""

    __slots__ = ("_cells", "_columns", "_line", "_path")

    def __init__(self, path: Path, line: int, columns: Mapping[str, int], cells: Sequence[str]) -> None:
        self._path = path
        self._line = line
        self._columns = columns
        self._cells = cells

    def text(self, column: str) -> str:
        return self._cells[self._columns[column]].strip() if column in self._columns else ""

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

    def refuse(self, column: str, problem: str) -> NoReturn:
        raise ConfigError(
            f"{self._path}:{self._line}:{self._columns.get(column, 0) + 1}: {column}: {problem}"
        )


def read_rows(path: Path, *, needed: Sequence[str]) -> Iterator[TableRow]:
    rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, ())]
        columns = {name: number for number, name in enumerate(header)}
        if missing := [name for name in needed if name not in columns]:
            raise ConfigError(f"{path}:1:1: there is no column {', '.join(missing)}; is this the right file?")
        for cells in rows:
            if not any(cells):
                continue
            if len(cells) != len(header):
                found = f"{len(cells)} cells where the header has {len(header)}"
                raise ConfigError(f"{path}:{rows.line_num}:{min(len(cells), len(header)) + 1}: {found}")
            yield TableRow(path, rows.line_num, columns, cells)
    except csv.Error as error:
        raise ConfigError(f"{path}:{rows.line_num}:1: this is no CSV: {error}") from error
