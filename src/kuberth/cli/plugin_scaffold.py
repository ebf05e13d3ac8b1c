"""The files of a new plugin package.

In: a name and extension points. Out: by path, the text of every file: a typed plugin whose rule works as it
is, its arguments, tests, a configuration that enables it, and a README (texts: plugin_scaffold.yaml).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from kuberth.errors import ConfigError

POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
"""The extension points that a scaffold can have."""
_MAY_REJECT: Final = frozenset({"preEnqueue", "preFilter", "filter", "reserve", "permit"})
_READS_LABELS: Final = frozenset({"preEnqueue", "preFilter", "filter", "preScore", "score"})
_LINE_LENGTH: Final = 88
"""ruff's, where nothing else is configured."""
_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_WORDS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A package that is to be written."""

    distribution: str
    module: str
    class_name: str
    files: Mapping[str, str]
    """Texts of the files by path within the package."""


def scaffold(name: str, points: Sequence[str]) -> Scaffold:
    """The package of a plugin; ConfigError if the name or a point will not do."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name for a plugin; use letters, digits and dashes: quiet-nodes")
    unknown = [point for point in points if point not in POINTS]
    if unknown or not points:
        raise ConfigError(
            f"--points: {f'there is no extension point {unknown[0]!r}' if unknown else 'name at least one'}; "
            f"choose among {', '.join(POINTS)}"
        )
    words = [word.lower() for word in _WORDS.findall(name)]
    module, distribution = "_".join(words), "-".join(words)
    class_name = "".join(word.capitalize() for word in words)
    if keyword.iskeyword(module):
        raise ConfigError(f"{name!r} is a keyword of Python; choose another name")
    ordered = [point for point in POINTS if point in points]
    fill = {
        "distribution": distribution,
        "module": module,
        "class_name": class_name,
        "label": f"example.com/{distribution}",
        "points": ", ".join(ordered),
        "disabled": "      disabled:\n      - name: PrioritySort\n" * ("queueSort" in points),
    }
    texts = _texts()
    made = {
        "pyproject.toml": texts["pyproject"].format(**fill),
        "README.md": texts["readme"].format(**fill),
        "config.yaml": texts["config"].format(**fill),
        f"src/{module}/__init__.py": texts["package"].format(**fill),
        f"src/{module}/plugin.py": _plugin(texts, fill, ordered),
        f"src/{module}/py.typed": "",
        f"tests/test_{module}.py": _tests(texts, fill, ordered),
    }
    return Scaffold(distribution, module, class_name, made)


def _texts() -> Any:
    from kuberth.text.documents import read_tree  # not for --help

    tree, errors = read_tree(files("kuberth.cli").joinpath("plugin_scaffold.yaml").read_bytes())
    assert not errors, errors
    return tree


def _plugin(texts: Any, fill: Mapping[str, str], points: Sequence[str]) -> str:
    parts = [texts["points"][point] for point in points]
    rejects = not _MAY_REJECT.isdisjoint(points)
    inputs = [part["inputs"] for part in parts if "inputs" in part]
    interfaces = [part["interface"] for part in parts]
    framework = {"Handle", *interfaces, *(name for part in parts for name in part["framework"])}
    if inputs:
        framework |= {"DependsOn", "Inputs"}
    if rejects:
        framework |= {"Action", "ClusterEvent", "EnqueueExtensions", "EventWithHint", "Hint", "Resource"}
        interfaces.append("EnqueueExtensions")
    title = f"{fill['class_name']}: say here what the rule is."
    lines = [f'"""{title}"""\n\nfrom __future__ import annotations\n']
    standard = ["import logging"] * ("postBind" in points)
    standard += ["from collections.abc import Iterable"] * rejects
    lines += [*standard, *([""] if standard else []), "import msgspec"]
    if objects := ["Node"] * rejects + ["Pod"] * (set(points) != {"queueSort"}):
        lines.append(f"from kuberth.api.core import {', '.join(objects)}")
    if views := sorted({name for part in parts for name in part.get("cluster", ())}):
        lines.append(f"from kuberth.cluster.nodes import {', '.join(views)}")
    # Constants, then classes, as ruff sorts them.
    ordered = sorted(framework, key=lambda name: (not name.isupper(), name.lower()))
    lines += ["from kuberth.framework import (", *(f"    {name}," for name in ordered), ")", ""]
    if "postBind" in points:
        lines += ["logger = logging.getLogger(__name__)", ""]
    declaration = _call(f"class {fill['class_name']}", interfaces)
    lines += ["", texts["arguments"].format(declaration=declaration, **fill).rstrip()]
    if inputs:
        lines.append(_call("    inputs = Inputs", ['{"metadata.labels"}', *inputs]))
    lines += ["", texts["constructor"].format(**fill).rstrip()]
    if "reserve" in points:
        lines.append("        self._reserved: dict[str, str] = {}")
    lines += ["", *(part["method"] for part in parts)]
    if rejects:
        lines.append(texts["events"])
    if rejects or not _READS_LABELS.isdisjoint(points):
        lines.append(texts["wanted"])
    return "\n".join(lines).rstrip() + "\n"


def _call(head: str, arguments: Sequence[str]) -> str:
    """The text of a call, on one line or with one argument a line, as ruff formats it."""
    line = f"{head}({', '.join(arguments)})"
    if len(line) < _LINE_LENGTH:
        return line
    indent = " " * (len(head) - len(head.lstrip()))
    return "\n".join([f"{head}(", *(f"{indent}    {each}," for each in arguments), f"{indent})"])


def _tests(texts: Any, fill: Mapping[str, str], points: Sequence[str]) -> str:
    filters = "filter" in points  # then there is no other node to score
    more = {
        "other": "red" if filters else "blue",
        "score": "100" if filters else "0",
        "argument": "sort=" * ("queueSort" in points) + f'"{fill["class_name"]}"',
    }
    names = ["head", *(point for point in ("filter", "score") if point in points), "placed"]
    return "\n\n".join(texts[f"test_{name}"].format(**fill, **more) for name in names)
