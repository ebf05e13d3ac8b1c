"""Decides how many hollow nodes to register.

In: the nodes in the store and the requested number. Out: the number to register, and messages about
differences. Nodes are removed only on request: pods run on them, and users may have labelled them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.shapes import HOLLOW, load_shapes, make_nodes
from kuberth.text.figures import count as counted

FIRST_NODES: Final = 5
"""Number of nodes of a new cluster without --nodes."""
_SHOWN: Final = 3


async def resolve_node_count(
    core: Core,
    *,
    nodes: int | None,
    shapes: Path | None,
    remove: bool,
    now: str,
    report: Callable[[str], None],
) -> int:
    """Remove surplus nodes if `remove`; returns how many nodes to register, 0 if the existing ones stay."""
    present = {name_of(node) for node in (await core.list("nodes"))["items"] if _is_made_here(node)}
    if nodes is None and shapes is None and present:
        return 0
    count = FIRST_NODES if nodes is None else nodes
    wanted = {name_of(node): node for node in make_nodes(load_shapes(shapes, count=count), now=now)}
    if shapes is not None:
        await _expect_valid(core, wanted, shapes)
    surplus = sorted(present - wanted.keys(), key=_natural_key)
    if not surplus:
        return count
    if remove:
        for name in surplus:
            await core.delete("nodes", name)
        gone = counted(len(surplus), "hollow node")
        report(f"{gone} beyond the {len(wanted)} asked for removed: {_list_names(surplus)}")
    else:
        kept = counted(len(present), "hollow node")
        report(
            f"{kept} are kept from before, {len(surplus)} more than asked for: all stay; "
            f"--remove-nodes removes {_list_names(surplus)} with the pods on them"
        )
    return count


async def _expect_valid(core: Core, nodes: Mapping[str, Obj], shapes: Path) -> None:
    """Raise ConfigError with the file's name if the server would reject the first node of a shape."""
    for name, node in nodes.items():
        if name.endswith("-1"):
            try:
                await core.create("nodes", node, dry_run=True)
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise ConfigError(f"{shapes}: {error}") from error


def _is_made_here(node: Obj) -> bool:
    """Whether `kuberth up` created the node; those that users created with the annotation are theirs."""
    annotations = node["metadata"].get("annotations") or {}
    provider = str(node.get("spec", {}).get("providerID", ""))
    return annotations.get(HOLLOW) == "true" and provider.startswith("kuberth://hollow/")


def _natural_key(name: str) -> tuple[str, int, str]:
    stem, _, number = name.rpartition("-")
    return stem, int(number) if number.isdecimal() else -1, name


def _list_names(names: list[str]) -> str:
    if len(names) <= _SHOWN + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
