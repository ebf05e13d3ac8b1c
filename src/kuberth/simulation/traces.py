"""Traces on disk: CSV or JSON lines, one pod a line, in any order.

In: a file. Out: arrivals, or a ConfigError that names file, line and column. Columns are the fields of
`Arrival`; in CSV each requested resource has a column of its own (`cpu`, `memory`, `nvidia.com/gpu`), and
cells of lists and mappings hold JSON (`{"disk": "ssd"}`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival, problem_of
from kuberth.text.documents import read_text

FIELDS: Final = Arrival.__struct_fields__
_JSON_CELLS: Final = ("node_selector", "tolerations", "affinity", "spread", "labels", "spec")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_NUMBERS: Final = {"arrival": float, "duration": float, "priority": int, "gang_size": int}


def read_trace(path: Path) -> list[Arrival]:
    """Read a trace; the extension decides the format (.csv, else JSON lines)."""
    text = read_text(path)
    arrivals = list(_read_csv(text, path) if path.suffix == ".csv" else _read_lines(text, path))
    if not arrivals:
        raise ConfigError(f"{path}: there is no pod in this trace")
    return arrivals


def write_trace(arrivals: Sequence[Arrival]) -> str:
    """JSON lines, which read back as the same arrivals."""
    encode = msgspec.json.Encoder(order="deterministic").encode
    return "".join(f"{encode(each).decode()}\n" for each in arrivals)


def _refuse(path: Path, line: int, column: int, problem: str, cause: Exception | None = None) -> NoReturn:
    raise ConfigError(f"{path}:{line}:{column}: {problem}") from cause


# JSON lines


def _read_lines(text: str, path: Path) -> Iterator[Arrival]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            tree = json.loads(line, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            _refuse(path, number, error.colno, f"this is no JSON: {error.msg}", error)
        except (ValueError, RecursionError) as error:
            _refuse(path, number, 1, f"this is no JSON: {error}", error)
        if not isinstance(tree, dict):
            _refuse(path, number, 1, "expected an object with the fields of one pod")
        for name in tree:
            if name not in FIELDS:
                known = ", ".join(FIELDS)
                _refuse(path, number, _column(line, name), f"unknown field {name}; known are {known}")
        if "arrival" not in tree:
            _refuse(path, number, 1, "there is no arrival, the second at which the pod comes")
        arrival = None
        for name, value in tree.items():
            try:
                arrival = msgspec.convert({"arrival": 0.0, name: value}, Arrival)
            except msgspec.ValidationError as error:
                _refuse(path, number, _column(line, name), f"{name}: {error}", error)
        arrival = msgspec.convert(tree, Arrival)
        if (problem := problem_of(arrival)) is not None:
            _refuse(path, number, _column(line, problem[0]), f"{problem[0]}: {problem[1]}")
        yield arrival


def _column(line: str, name: str) -> int:
    """The column of a field in its line."""
    return line.find(json.dumps(name)) + 1 or 1


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


# CSV


def _read_csv(text: str, path: Path) -> Iterator[Arrival]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(rows, ())]
        _check_header(header, path)
        for row in rows:
            if any(cell.strip() for cell in row):
                yield _from_row(header, row, path, rows.line_num)
    except csv.Error as error:
        _refuse(path, rows.line_num, 1, f"this is no CSV: {error}", error)


def _check_header(header: Sequence[str], path: Path) -> None:
    for column, name in enumerate(header, 1):
        if name not in FIELDS and not _is_resource(name):
            known = ", ".join(field for field in FIELDS if field != "requests")
            _refuse(path, 1, column, f"unknown column {name or '(empty)'}; known are {known} and resources")
        if header.index(name) != column - 1:
            _refuse(path, 1, column, f"column {name} is there twice")
    if "arrival" not in header:
        _refuse(path, 1, 1, "there is no column arrival, the second at which a pod comes")


def _is_resource(name: str) -> bool:
    return name in _RESOURCES or "/" in name or name.startswith("hugepages-")


def _from_row(header: Sequence[str], row: Sequence[str], path: Path, line: int) -> Arrival:
    if len(row) != len(header):
        found = f"{len(row)} cells where the header has {len(header)}"
        _refuse(path, line, min(len(row), len(header)) + 1, found)
    tree: dict[str, Any] = {"requests": {}}
    for column, (name, cell) in enumerate(zip(header, row, strict=True), 1):
        cell = cell.strip()
        if not cell:
            continue
        try:
            if _is_resource(name):
                tree["requests"][name] = cell
            elif name in _NUMBERS:
                tree[name] = _NUMBERS[name](cell)
            elif name in _JSON_CELLS or name == "requests":
                tree[name] = json.loads(cell)
            else:
                tree[name] = cell
            msgspec.convert({"arrival": 0.0, name: tree[name]} if name in tree else {"arrival": 0.0}, Arrival)
        except (ValueError, RecursionError) as error:
            _refuse(path, line, column, f"{name}: {cell!r:.80} cannot be read: {error}", error)
    if "arrival" not in tree:
        _refuse(path, line, header.index("arrival") + 1, "arrival: every pod has one")
    arrival = msgspec.convert(tree, Arrival)
    if (problem := problem_of(arrival)) is not None:
        _refuse(path, line, _cell_of(problem[0], header), f"{problem[0]}: {problem[1]}")
    return arrival


def _cell_of(field: str, header: Sequence[str]) -> int:
    if field in header:
        return header.index(field) + 1
    return next((column for column, name in enumerate(header, 1) if _is_resource(name)), 1)
