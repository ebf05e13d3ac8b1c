"""ControllerRevisions: the templates a controller had, so that `kubectl rollout undo` can go back to one.

In: an owner and the hash of its present template. Out: a revision for each template it had, numbered in the
order in which they were last in use, and no more of them than the owner wants to remember.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.ownership import OWNER_INDEX, index_owners, reference_to
from kuberth.local.selecting import labels_of

REVISION_LABEL: Final = "controller-revision-hash"
_HISTORY: Final = 10


class Revisions:
    def __init__(self, informers: Informers, *, api_version: str, kind: str) -> None:
        self._revisions = informers.of("controllerrevisions.apps")
        self._api_version = api_version
        self._kind = kind
        index_owners(self._revisions)

    async def synced(self) -> None:
        await self._revisions.synced.wait()

    async def keep(self, owner: Obj, present: str, *, live: Collection[str]) -> None:
        """Note the present template; forget old ones that no pod in `live` has any more."""
        known = sorted(
            self._revisions.by(OWNER_INDEX, owner["metadata"]["uid"]),
            key=lambda each: each.get("revision", 0),
        )
        newest = known[-1].get("revision", 0) if known else 0
        found = next((each for each in known if labels_of(each).get(REVISION_LABEL) == present), None)
        if found is None:
            try:
                await self._revisions.create(self._new(owner, present, newest + 1))
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        elif found.get("revision", 0) < newest:
            await self._revisions.update({**found, "revision": newest + 1})
        old = [
            each
            for each in known
            if each is not found
            and labels_of(each).get(REVISION_LABEL) not in live
            and not self._revisions.is_leaving(each)
        ]
        limit = owner["spec"].get("revisionHistoryLimit", _HISTORY)
        for each in old[: max(0, len(old) - limit)]:
            await self._revisions.delete(each)

    def _new(self, owner: Obj, present: str, number: int) -> Obj:
        template = owner["spec"].get("template", {})
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{name_of(owner)}-{present}",
                "namespace": namespace_of(owner),
                "labels": {**labels_of(template), REVISION_LABEL: present},
                "ownerReferences": [reference_to(owner, api_version=self._api_version, kind=self._kind)],
            },
            # A strategic merge patch that puts this template in the place of any other.
            "data": {"spec": {"template": {**template, "$patch": "replace"}}},
            "revision": number,
        }
