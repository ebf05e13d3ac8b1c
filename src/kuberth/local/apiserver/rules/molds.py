"""Pods that are alike: what the rules made of a spec once, they make of the next one.

In: a pod as it is sent. Out: the spec and the status that an equal one was stored with before, and whoever
signed it, the fields of that spec. A Deployment of thousands is then decoded, defaulted, admitted and
validated once, and its pods share one spec in memory: what is stored is never changed.

Safe, because equal means equal: the spec as it was sent, type by type, in the same namespace, while none of
the objects moved that admission looks at. Only what was stored makes a mold, so nothing that was refused
ever does; and pods whose admission depends on more than their specs have none.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.field_sets import FieldSet
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.limit_ranges import LIMIT_RANGES
from kuberth.local.apiserver.rules.pod_admission import ACCOUNTS, MIRROR, RUNTIME_CLASSES
from kuberth.local.apiserver.store.store import RevisionStore

_MOST: Final = 256
_LARGEST_BYTES: Final = 32 * 1024
_ASKED: Final = (ACCOUNTS, "priorityclasses.scheduling.k8s.io", RUNTIME_CLASSES)
"""What admission looks at."""
_NO_REFERENCES: Final = 2
"""The version of marshal's form that depends on nothing but types and values."""


class MoldKey(NamedTuple):
    spec: bytes
    namespace: str
    around: tuple[int, ...]
    signed: bool


class Mold(NamedTuple):
    spec: Obj
    status: Obj
    fields: FieldSet | None
    """Of the spec, as who created the pod owns them; None where nobody keeps book."""


class Molds:
    """The latest ones."""

    def __init__(self, store: RevisionStore) -> None:
        self._store = store
        self._molds: OrderedDict[MoldKey, Mold] = OrderedDict()

    def key(self, row: ServedResource, body: Any, *, namespace: str, signed: bool) -> MoldKey | None:
        """What a mold for this body is filed under; None where there can be none."""
        if row.id != "pods" or not isinstance(body, dict) or "status" in body:
            return None
        spec, metadata = body.get("spec"), body.get("metadata")
        if not isinstance(spec, dict) or not isinstance(metadata, dict) or "managedFields" in metadata:
            return None
        # The condition of a gated pod tells the time; a mirror pod has no account; limit ranges leave a note.
        annotations = metadata.get("annotations")
        if "schedulingGates" in spec or (annotations and MIRROR in annotations):
            return None
        if self._store.latest_list(LIMIT_RANGES, namespace=namespace):
            return None
        try:
            # Unlike JSON this tells 1 from "1", and takes nothing but plain trees.
            sent = marshal.dumps(spec, _NO_REFERENCES)
        except ValueError:
            return None
        if len(sent) > _LARGEST_BYTES:
            return None
        return MoldKey(sent, namespace, tuple(map(self._store.version, _ASKED)), signed)

    def get(self, key: MoldKey | None) -> Mold | None:
        mold = None if key is None else self._molds.get(key)
        if key is not None and mold is not None:
            self._molds.move_to_end(key)
        return mold

    def keep(self, key: MoldKey, stored: Obj) -> None:
        """Remember what became of a pod with this key."""
        managed = stored["metadata"].get("managedFields")
        if key.signed and not managed:
            return
        fields = managed[0]["fieldsV1"]["f:spec"] if managed else None
        self._molds[key] = Mold(stored["spec"], stored["status"], fields)
        if len(self._molds) > _MOST:
            self._molds.popitem(last=False)
