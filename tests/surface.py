"""`python -m tests.surface`: the public surface of Kuberth as text, one line a name.

In: the source. Out: what `tests/public_surface.txt` holds; a test compares the two, so that a change of what
users can call is seen in every review. Regenerate it with `make surface`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe

SNAPSHOT = Path(__file__).with_name("public_surface.txt")
MODULES = (
    "kuberth.assembly",
    "kuberth.evaluation",
    "kuberth.framework",
    "kuberth.queue",
    "kuberth.simulation",
    "kuberth.testing",
)
SOURCE = Path(__file__).parents[1] / "src"


@cache
def _root() -> griffe.Object | griffe.Alias:
    return griffe.load("kuberth", search_paths=[SOURCE], resolve_aliases=True)


def module_of(name: str) -> griffe.Module:
    """A module of Kuberth as its source has it."""
    module = _root()[name.removeprefix("kuberth.")]
    assert isinstance(module, griffe.Module)
    return module


def public_names() -> Iterator[tuple[str, griffe.Object]]:
    """Every name that a public module lists, with what it stands for."""
    for module in MODULES:
        package = module_of(module)
        for exported in sorted(str(name) for name in package.exports or ()):
            member = package.members[exported]
            target = member.final_target if isinstance(member, griffe.Alias) else member
            assert isinstance(target, griffe.Object)
            yield f"{module}.{exported}", target


def lines() -> Iterator[str]:
    for name, target in public_names():
        yield from describe(name, target)


def describe(name: str, target: griffe.Object) -> Iterator[str]:
    if isinstance(target, griffe.Class):
        bases = ", ".join(str(base) for base in target.bases)
        yield f"class {name}({bases})"
        for member_name, member in sorted(target.members.items()):
            is_public = not member_name.startswith("_") or member_name == "__init__"
            if is_public and not isinstance(member, griffe.Alias):
                yield from (f"    {line}" for line in describe(member_name, member))
    elif isinstance(target, griffe.Function):
        parameters = ", ".join(_parameters(target))
        yield f"def {name}({parameters}) -> {target.returns}"
    elif isinstance(target, griffe.Attribute):
        yield f"{name}: {target.annotation}" if target.annotation else name


def _parameters(function: griffe.Function) -> Iterator[str]:
    marked = False
    for parameter in function.parameters:
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not marked:
            marked = True
            yield "*"
        marked = marked or kind is griffe.ParameterKind.var_positional
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
        text = f"{stars.get(kind, '')}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and kind not in stars:
            text += f" = {parameter.default}"
        yield text


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
    print(f"{SNAPSHOT} written")
