"""Owner references: which controller an object belongs to, and which may adopt an orphan.

In: children by informer, an owner and its selector. Out: the owner's children, after orphans that match
were adopted and children that no longer match were released, as upstream's controller refs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, labels_of, name_of, namespace_of, selector_of, with_metadata
from kuberth.local.hollow.informing import Informer

OWNER_INDEX: Final = "owner"
"""Objects by the UID of their controller."""
ORPHAN_INDEX: Final = "orphan"
"""Objects without a controller, by namespace."""


def controller_of(obj: Obj) -> Obj | None:
    """The reference to the controller of an object."""
    # A plain loop: this runs a dozen times for every change of every pod.
    references: Iterable[Obj] = obj["metadata"].get("ownerReferences") or ()
    for reference in references:
        if reference.get("controller"):
            return reference
    return None


def owner_reference(owner: Obj, api_version: str, kind: str, **marks: bool) -> Obj:
    """A reference to an owner of this kind, of which lists of some servers omit the apiVersion and kind."""
    names = {"name": name_of(owner), "uid": owner["metadata"]["uid"]}
    return {"apiVersion": api_version, "kind": kind, **names, **marks}


def reference_to(owner: Obj) -> Obj:
    """The reference by which a controller owns the objects that it creates."""
    return owner_reference(
        owner, owner["apiVersion"], owner["kind"], controller=True, blockOwnerDeletion=True
    )


def pod_from_template(owner: Obj, template: Obj | None = None, **changes: Any) -> Obj:
    """A pod of the owner's template, or of another one, owned by it; `changes` are fields of its metadata.

    Unless they have a name, it is generated; empty fields are left out.
    """
    template = owner["spec"].get("template", {}) if template is None else template
    given = template.get("metadata") or {}
    metadata = {
        **({} if "name" in changes else {"generateName": f"{name_of(owner)}-"}),
        "namespace": namespace_of(owner),
        **{field: given.get(field) for field in ("labels", "annotations", "finalizers")},
        **changes,
        "ownerReferences": [reference_to(owner)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {field: value for field, value in metadata.items() if value},
        "spec": template.get("spec", {}),
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


class Claim:
    """Decides which children belong to one owner, which it adopts and which it releases."""

    def __init__(self, children: Informer, owner: Obj, *, selector: Obj | None) -> None:
        self.owner = owner
        self.matching = selector_of(selector)
        self.owner_is_terminating = "deletionTimestamp" in owner["metadata"]
        self._children = children

    def candidates(self) -> list[Obj]:
        """The owner's children, and orphans of its namespace."""
        mine = self._children.by(OWNER_INDEX, self.owner["metadata"]["uid"])
        return mine + self._children.by(ORPHAN_INDEX, namespace_of(self.owner))

    async def adopt_or_release(self, child: Obj) -> Obj | None:
        """The child if it is the owner's; matching orphans are adopted, other children released."""
        reference = controller_of(child)
        matches = self.matching.matches(labels_of(child))
        if reference is not None and reference["uid"] == self.owner["metadata"]["uid"]:
            if matches:
                return child
            if not self._children.is_terminating(child) and not self.owner_is_terminating:
                others = [one for one in child["metadata"]["ownerReferences"] if not one.get("controller")]
                await self._children.update(with_metadata(child, ownerReferences=others))
            return None
        if (
            reference is not None
            or not matches
            or self.owner_is_terminating
            or self._children.is_terminating(child)
        ):
            return None
        references = child["metadata"].get("ownerReferences") or []
        references = [*references, reference_to(self.owner)]
        return await self._children.update(with_metadata(child, ownerReferences=references))


async def claim(children: Informer, owner: Obj) -> list[Obj]:
    """The children of an owner, after those that its selector matches were adopted and others released."""
    claiming = Claim(children, owner, selector=owner["spec"].get("selector"))
    claimed = [await claiming.adopt_or_release(child) for child in claiming.candidates()]
    return [child for child in claimed if child is not None]


def _owner_uids(obj: Obj) -> Iterable[str]:
    reference = controller_of(obj)
    return () if reference is None else (reference["uid"],)


def _orphan_namespaces(obj: Obj) -> Iterable[str]:
    return (namespace_of(obj),) if controller_of(obj) is None else ()
