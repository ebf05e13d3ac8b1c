"""The JSON paths that CustomResourceDefinitions name their columns by.

In: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels['a\\.b']`. Out: a
function from object to the first value there, None where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

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
