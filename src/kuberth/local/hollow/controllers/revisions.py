"""The history of a template: a ControllerRevision for each version, for `kubectl rollout undo`.

In: an owner with a template. Out: the revision of the current template and a named earlier one; revisions are
created, renumbered and cleaned up as upstream does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, key_of, name_of, namespace_of
from kuberth.local.apiserver.schema.fields import as_go_writes
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controllers.deployment import template_hash
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.ownership import claim, index_owners, reference_to

REVISIONS: Final = "controllerrevisions.apps"
REVISION_LABEL: Final = "controller-revision-hash"
"""The label of a pod: which revision it was made from."""
_ATTEMPTS: Final = 10
"""Most hashes that are tried after collisions."""


class Versions(NamedTuple):
    current: Obj
    """The revision from which the owner is updated."""
    update: Obj
    """The revision to which it is updated."""
    history: list[Obj]
    collisions: int


class RevisionHistory:
    def __init__(self, controller: Controller, *, hash_label: str) -> None:
        """`hash_label` is the label of a revision that has its template's hash."""
        self._revisions = controller.watch(REVISIONS)
        self._hash_label = hash_label
        index_owners(self._revisions)

    async def versions(self, owner: Obj) -> Versions:
        """The owner's revisions, the one of its present template made if it is new."""
        collisions = int(owner.get("status", {}).get("collisionCount") or 0)
        history = await claim(self._revisions, owner)
        history.sort(key=lambda one: (one.get("revision", 0), name_of(one)))
        data, newest = _data(owner), history[-1].get("revision", 0) if history else 0
        same = [one for one in history if _as_written(one.get("data")) == data]
        if same:
            update = same[-1]
            if update.get("revision", 0) != newest:  # rolled back to
                update = await self._revisions.update({**update, "revision": newest + 1})
        else:
            update, collisions = await self._create(owner, collisions, number=newest + 1)
        history = [*(one for one in history if name_of(one) != name_of(update)), update]
        wanted = owner.get("status", {}).get("currentRevision")
        current = next((one for one in history if name_of(one) == wanted and _is_whole(one)), update)
        return Versions(current, update, history, collisions)

    async def clean_up(self, owner: Obj, versions: Versions, *, used: Collection[str]) -> None:
        """Keep the last `revisionHistoryLimit` revisions besides those in use."""
        kept = {name_of(versions.current), name_of(versions.update), *used}
        idle = [one for one in versions.history if name_of(one) not in kept]
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        for one in idle[: max(0, len(idle) - limit)]:
            if not self._revisions.is_terminating(one):
                await self._revisions.delete(one)

    async def _create(self, owner: Obj, collisions: int, *, number: int) -> tuple[Obj, int]:
        for attempt in range(collisions, collisions + _ATTEMPTS):
            body = self._body(owner, attempt, number=number)
            try:
                return await self._revisions.create(body), attempt
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            present = await self._revisions.fetch(key_of(body))
            if present is not None and present.get("data") == body["data"]:
                return present, attempt
        raise StatusError(409, "Conflict", f"no free name for a revision of {key_of(owner)}")

    def _body(self, owner: Obj, collisions: int, *, number: int) -> Obj:
        hash_ = template_hash(owner["spec"]["template"], collisions)
        selecting = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{name_of(owner)[: 252 - len(hash_)]}-{hash_}",
                "namespace": namespace_of(owner),
                "labels": {**selecting, self._hash_label: hash_},
                "ownerReferences": [reference_to(owner)],
            },
            "data": _data(owner),
            "revision": number,
        }


def template_of(revision: Obj) -> Obj:
    template: Obj = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != "$patch"}


def _is_whole(revision: Obj) -> bool:
    """Whether the revision holds a template; any client can create one that a selector matches."""
    data = revision.get("data")
    spec = data.get("spec") if isinstance(data, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("template"), dict)


def _data(owner: Obj) -> Obj:
    return _as_written({"spec": {"template": {"$patch": "replace", **owner["spec"]["template"]}}})


def _as_written(data: Any) -> Obj:
    """The template as upstream's controllers write it: clients compare bytes to find the present revision."""
    match data:
        case {"spec": {"template": dict(template)}}:
            return {"spec": {"template": as_go_writes(template, "core.v1.PodTemplateSpec")}}
        case _:
            return {}
