"""The files of a new plugin package.

In: a name and extension points. Out: by path, the text of every file: a typed plugin with a working rule, its
arguments, tests, a configuration that enables it, and a README (texts: plugin_scaffold.yaml).
"""

from __future__ import annotations

import keyword
import re
import sys
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
_DEPENDENCIES: Final = frozenset({"kuberth", "hatchling", "msgspec", "pytest"})
"""Packages on which every new package depends: a package with the same name would replace them."""
_LINE_LENGTH: Final = 88
"""ruff's default line length."""
_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_WORDS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A package to create."""

    distribution: str
    module: str
    class_name: str
    points: Sequence[str]
    """The extension points, as written in configurations."""
    files: Mapping[str, str]
    """Texts of the files by path within the package."""


def scaffold(name: str, points: Sequence[str]) -> Scaffold:
    """The package of a plugin; ConfigError if the name or an extension point is invalid."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid plugin name; use letters, digits and dashes: quiet-nodes")
    ordered = _ordered_points(points)
    words = [word.lower() for word in _WORDS.findall(name)]
    module, distribution = "_".join(words), "-".join(words)
    class_name = "".join(word.capitalize() for word in words)
    if keyword.iskeyword(module) or keyword.iskeyword(class_name):
        raise ConfigError(f"{name!r} is a Python keyword; choose another name")
    fill = {
        "distribution": distribution,
        "module": module,
        "class_name": class_name,
        "label": f"example.com/{distribution}",
        "points": ", ".join(ordered),
        "disabled": "      disabled:\n      - name: PrioritySort\n" * ("queueSort" in ordered),
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
    return Scaffold(distribution, module, class_name, ordered, made)


def refuse_taken_names(made: Scaffold) -> None:
    """ConfigError if the package would replace or hide another one, or a name in it is taken."""
    problem = _name_conflict(made)
    if problem:
        raise ConfigError(f"{problem}; choose another name: kuberth plugin new my-{made.distribution}")


def _name_conflict(made: Scaffold) -> str:
    import importlib.metadata  # not for --help
    import importlib.util

    from kuberth import framework
    from kuberth.framework.registry import installed_plugins
    from kuberth.plugins import in_tree_registry

    if made.module in _DEPENDENCIES:
        return f"a package called {made.distribution!r} would replace the one that plugins are built upon"
    if made.module in sys.stdlib_module_names:
        return f"{made.module!r} is a module of Python's standard library, which the package would hide"
    plugins = [*in_tree_registry().names(), *(each.name for each in installed_plugins())]
    for plugin in plugins:
        if plugin.casefold() == made.class_name.casefold():
            return f"there is a plugin called {plugin!r} already (kuberth plugin list)"
    if hasattr(framework, made.class_name) or made.class_name in (
        "Iterable",
        "Node",
        "Nodes",
        "NodeRow",
        "Pod",
    ):
        return f"{made.class_name!r} is a name that the plugin's own module imports"
    try:
        version = importlib.metadata.version(made.distribution)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if version:
        return f"the package {made.distribution!r} is installed already (version {version})"
    found = importlib.util.find_spec(made.module)
    if found is not None and found.origin is not None:
        return f"there is a module {made.module!r} already ({found.origin})"
    return ""


def _ordered_points(points: Sequence[str]) -> Sequence[str]:
    """The extension points in the order in which a pod passes them, in any spelling of their names."""
    by_name = {point.casefold(): point for point in POINTS}
    found = [by_name.get(point.casefold().replace("_", "").replace("-", ""), "") for point in points]
    problem = ""
    if not points:
        problem = "name at least one"
    elif "" in found:
        problem = f"there is no extension point {points[found.index('')]!r}"
    elif twice := [point for point in POINTS if found.count(point) > 1]:
        problem = f"{twice[0]} is named twice; name each one once"
    if problem:
        raise ConfigError(f"--points: {problem}; choose among {', '.join(POINTS)}")
    return [point for point in POINTS if point in found]


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
