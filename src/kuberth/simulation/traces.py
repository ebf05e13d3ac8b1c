"""Traces on disk: CSV or JSON lines, one pod a line, in any order.

In: a file. Out: arrivals, or a ConfigError that names file, line and column. Columns are the fields of
`Arrival`; in CSV each requested resource has a column of its own (`cpu`, `memory`, `nvidia.com/gpu`), and
cells of lists and mappings hold JSON (`{"disk": "ssd"}`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival, problem_of
from kuberth.simulation.csv_rows import TableRow, read_rows
from kuberth.text.documents import read_text

FIELDS: Final = Arrival.__struct_fields__
_JSON_CELLS: Final = ("node_selector", "tolerations", "affinity", "spread", "labels", "spec")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_NUMBERS: Final = {"arrival": float, "duration": float, "priority": int, "gang_size": int}


def read_trace(path: Path) -> list[Arrival]:
    """Read a trace; the extension decides the format (.csv, else JSON lines)."""
    if path.suffix == ".csv":
        arrivals = list(map(_from_row, read_rows(path, check=partial(_check_header, path))))
    else:
        arrivals = list(_read_lines(read_text(path), path))
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
            _refuse(path, number, error.colno, f"this is not JSON: {error.msg}", error)
        except (ValueError, RecursionError) as error:
            _refuse(path, number, 1, f"this is not JSON: {error}", error)
        if not isinstance(tree, dict):
            _refuse(path, number, 1, "expected an object with the fields of one pod")
        for name in tree:
            if name not in FIELDS:
                known = ", ".join(FIELDS)
                _refuse(path, number, _column(line, name), f"unknown field {name}; known are {known}")
        if "arrival" not in tree:
            _refuse(path, number, 1, "the field arrival is missing: the second at which the pod is created")
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
    raise ValueError(f"{name} is not a JSON number")


# CSV


def _check_header(path: Path, header: Sequence[str]) -> None:
    for column, name in enumerate(header, 1):
        if name not in FIELDS and not _is_resource(name):
            known = ", ".join(field for field in FIELDS if field != "requests")
            _refuse(path, 1, column, f"unknown column {name or '(empty)'}; known are {known} and resources")
        if header.index(name) != column - 1:
            _refuse(path, 1, column, f"column {name} is given twice")
    if "arrival" not in header:
        _refuse(path, 1, 1, "the column arrival is missing: the second at which a pod is created")


def _is_resource(name: str) -> bool:
    return name in _RESOURCES or "/" in name or name.startswith("hugepages-")


def _from_row(row: TableRow) -> Arrival:
    tree: dict[str, Any] = {"requests": {}}
    for name in row.columns:
        cell = row.text(name)
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
            row.refuse(name, f"{cell!r:.80} cannot be read: {error}")
    if "arrival" not in tree:
        row.refuse("arrival", "every pod has one")
    arrival = msgspec.convert(tree, Arrival)
    if (problem := problem_of(arrival)) is not None:
        # Requests are in the columns of their resources.
        cell = problem[0] if problem[0] in row.columns else next(filter(_is_resource, row.columns), "")
        row.refuse(*problem, cell=cell)
    return arrival
