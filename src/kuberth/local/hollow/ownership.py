"""Owner references: which controller an object belongs to, and who may take an orphan.

In: children by informer, an owner and its selector. Out: the owner's children, after orphans that match
were adopted and children that no longer match were released, as upstream's controller refs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.hollow.informing import Informer
from kuberth.local.selecting import labels_of, selector_of

OWNER_INDEX: Final = "owner"
"""Objects by the UID of their controller."""
ORPHAN_INDEX: Final = "orphan"
"""Objects without a controller, by namespace."""


def controller_of(obj: Obj) -> Obj | None:
    """The reference to the controller of an object."""
    references: Iterable[Obj] = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def reference_to(owner: Obj, *, api_version: str, kind: str) -> Obj:
    """The reference by which a controller owns what it makes."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name_of(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_key(obj: Obj, kind: str) -> str | None:
    """The key of the object's controller, if that is of this kind."""
    reference = controller_of(obj)
    if reference is None or reference.get("kind") != kind:
        return None
    return f"{namespace_of(obj)}/{reference['name']}"


def index_owners(children: Informer) -> None:
    children.add_index(OWNER_INDEX, _owner_uids)
    children.add_index(ORPHAN_INDEX, _orphan_namespaces)


async def claim(
    children: Informer, owner: Obj, *, api_version: str, kind: str, selector: Obj | None
) -> list[Obj]:
    """The children of an owner; adopts and releases on the way."""
    matching = selector_of(selector)
    claimed = []
    for child in children.by(OWNER_INDEX, owner["metadata"]["uid"]):
        if matching.matches(labels_of(child)):
            claimed.append(child)
        elif not children.is_leaving(child) and "deletionTimestamp" not in owner["metadata"]:
            others = [one for one in child["metadata"]["ownerReferences"] if not one.get("controller")]
            await children.update(_with_references(child, others))
    if "deletionTimestamp" in owner["metadata"]:
        return claimed
    for child in children.by(ORPHAN_INDEX, namespace_of(owner)):
        if matching.matches(labels_of(child)) and not children.is_leaving(child):
            references = child["metadata"].get("ownerReferences") or []
            mine = reference_to(owner, api_version=api_version, kind=kind)
            claimed.append(await children.update(_with_references(child, [*references, mine])))
    return claimed


def _with_references(obj: Obj, references: list[Obj]) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": references}}


def _owner_uids(obj: Obj) -> Iterable[str]:
    reference = controller_of(obj)
    return () if reference is None else (reference["uid"],)


def _orphan_namespaces(obj: Obj) -> Iterable[str]:
    return (namespace_of(obj),) if controller_of(obj) is None else ()
