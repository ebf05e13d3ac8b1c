"""Columns of the tables that `kubectl get` shows: their definitions as data, their cells as functions.

In: definitions as a CustomResourceDefinition's additionalPrinterColumns; those of built-in kinds are in
schema/resources.yaml, which says what they have in addition. Out: tuples of `Column`.

A column names its value by a JSON path: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`,
`.metadata.labels['a\\.b']`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, Final

from kuberth.cel.validation_rules import compile_rule
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.printing import cells
from kuberth.local.apiserver.printing.cells import since
from kuberth.local.apiserver.resources import Column

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
    |\[(?P<index>-?\d{1,6})\]
    |\[['"](?P<quoted>[^'"]+)['"]\]
    |\[\?\(@\.(?P<field>[\w.-]+)\s*==\s*['"](?P<value>[^'"]*)['"]\)\]""",
    re.VERBOSE,
)

Step = Callable[[Any], Any]


def compile_path(path: str) -> Callable[[Any], Any]:
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return lambda obj: None
        steps.append(_step(match))
        position = match.end()

    def find(obj: Any) -> Any:
        for step in steps:
            if obj is None:
                return None
            obj = step(obj)
        return obj

    return find


def _step(match: re.Match[str]) -> Step:
    name = match["name"] or match["quoted"]
    if name is not None:
        plain = name.replace("\\", "")
        return lambda obj: obj.get(plain) if isinstance(obj, dict) else None
    if match["index"] is not None:
        index = int(match["index"])
        return lambda obj: obj[index] if isinstance(obj, list) and -len(obj) <= index < len(obj) else None
    field, value = match["field"], match["value"]

    def choose(obj: Any) -> Any:
        for entry in obj if isinstance(obj, list) else ():
            if isinstance(entry, dict) and str(entry.get(field)) == value:
                return entry
        return None

    return choose


Cell = Callable[[Obj, int], Any]

NAME: Final = Column(
    "Name",
    lambda obj, now: name_of(obj),
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. Name is "
    "primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
AGE: Final = Column(
    "Age",
    cells.age,
    description="CreationTimestamp is a timestamp representing the server time when this object was created.",
)
NAME_AND_AGE: Final = (NAME, AGE)
_SHARED: Final = {"Name": NAME, "Age": AGE}


def built_in_columns(definitions: Iterable[str | Obj]) -> tuple[Column, ...]:
    """The columns of a built-in kind; a text names a column that all kinds share."""
    return tuple(_SHARED[each] if isinstance(each, str) else _built_in_column(each) for each in definitions)


def custom_columns(definitions: list[Obj]) -> tuple[Column, ...]:
    """The columns that a custom kind defines, after the name; an unreadable path shows nothing."""
    return (
        NAME,
        *(
            _column(each, _custom_cell(each), type_name={"date": "string"}.get(_type(each), _type(each)))
            for each in definitions
        ),
    )


def _type(definition: Obj) -> str:
    return str(definition.get("type", "string"))


def _column(definition: Obj, cell: Cell, *, type_name: str) -> Column:
    return Column(
        str(definition.get("name", "")),
        cell,
        type=type_name,
        format=str(definition.get("format", "")),
        priority=int(definition.get("priority", 0)),
        description=str(definition.get("description", "")),
    )


def _built_in_column(definition: Obj) -> Column:
    shared = _SHARED.get(definition.get("like", ""))
    cell = _built_in_cell(definition) if shared is None or "jsonPath" in definition else shared.cell
    if shared is not None:
        definition = {**definition, "format": shared.format, "description": shared.description}
    return _column(definition, cell, type_name=_type(definition))


def _built_in_cell(definition: Obj) -> Cell:
    find, default = compile_path(definition.get("jsonPath", "")), definition.get("default", "")
    show = _shown_by(definition)

    def cell(obj: Obj, now: int) -> Any:
        found = find(obj)
        # A cell's own function decides what stands for an absent value, unless the column does.
        if found is not None or ("cell" in definition and "default" not in definition):
            found = show(found, now)
        return default if found in (None, "") else found

    return cell


def _shown_by(definition: Obj) -> Callable[[Any, int], Any]:
    if "cell" in definition:
        name = definition["cell"]
        function = getattr(cells, name)
        if len(signature(function).parameters) > 1:
            return function  # type: ignore[no-any-return]  # it was found by its name
        return lambda value, now: function(value)
    if "expression" in definition:
        return lambda value, now: compile_rule(definition["expression"]).evaluate(value)
    return lambda value, now: value


def _custom_cell(definition: Obj) -> Cell:
    find, kind = compile_path(str(definition.get("jsonPath", ""))), _type(definition)

    def cell(obj: Obj, now: int) -> Any:
        found = find(obj)
        if found is None:
            return None if kind != "date" else "<unknown>"
        if kind == "date":
            return since(found, now)
        if kind == "string":
            return found if isinstance(found, str) else str(found)
        return found

    return cell
