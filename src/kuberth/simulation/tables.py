"""Tables of results: rows that a notebook shows, a file holds, or pandas takes.

In: rows. Out: the same rows as a list, as CSV, as HTML, or as a DataFrame where pandas is installed.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Sequence
from html import escape
from typing import Any

from kuberth.errors import ConfigError


class Table(list[dict[str, Any]]):
    """A list of rows; a row maps columns to values."""

    @property
    def columns(self) -> list[str]:
        """All columns that rows have, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self for name in row))

    def to_frame(self) -> Any:
        """The table as a `pandas.DataFrame`; ConfigError without pandas."""
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError as error:
            raise ConfigError("a DataFrame needs pandas: pip install pandas") from error
        return pandas.DataFrame(list(self), columns=self.columns)

    def to_csv(self) -> str:
        """The table as CSV, with a header."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self)
        return text.getvalue()

    def _repr_html_(self) -> str:
        """The table as Jupyter shows it."""
        rows = [[_cell(row.get(name)) for name in self.columns] for row in self]
        return html_table(self.columns, rows)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls if it is too wide."""
    head = "".join(f"<th scope='col'>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='table'>{table}</div>"


def _cell(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
