"""A cache of prepared pod specs: equal pods are defaulted, admitted and validated once.

In: a pod as a client sends it. Out: the spec and status that an equal pod was stored with, and the managed
fields of that spec. The thousands of pods of a Deployment are then decoded, defaulted, admitted and validated
once, and share one spec in memory: stored objects are never changed.

Two pods are equal if their specs were sent alike, type by type, in the same namespace, while no object
changed that admission reads. Only stored pods are cached, so nothing that was refused is; pods whose
admission depends on more than their specs are not cached.
"""

from __future__ import annotations

import marshal
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.field_sets import FieldSet
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.admission import ACCOUNTS, MIRROR_ANNOTATION, RUNTIME_CLASSES
from kuberth.local.apiserver.rules.quotas import LIMIT_RANGES
from kuberth.local.apiserver.store.store import RevisionStore

_MAX_SPECS: Final = 256
_MAX_SPEC_BYTES: Final = 32 * 1024
_READ_BY_ADMISSION: Final = (ACCOUNTS, "priorityclasses.scheduling.k8s.io", RUNTIME_CLASSES)
"""The resources that admission reads."""
_NO_REFERENCES: Final = 2
"""The marshal version whose output depends only on types and values."""


class SpecKey(NamedTuple):
    spec: bytes
    namespace: str
    versions: tuple[int, ...]
    """The versions of the resources that admission reads."""
    tracked: bool
    """Whether a field manager owns the fields of the pod."""


class PreparedSpec(NamedTuple):
    spec: Obj
    status: Obj
    fields: FieldSet | None
    """The managed fields of the spec; None if they are not tracked."""


class PreparedSpecs:
    """The most recently used prepared specs."""

    def __init__(self, store: RevisionStore) -> None:
        self._store = store
        self._prepared: OrderedDict[SpecKey, PreparedSpec] = OrderedDict()

    def key(self, row: ServedResource, body: Any, *, namespace: str, tracked: bool) -> SpecKey | None:
        """The key of a body; None if it cannot be cached."""
        if row.id != "pods" or not isinstance(body, dict) or "status" in body:
            return None
        spec, metadata = body.get("spec"), body.get("metadata")
        if not isinstance(spec, dict) or not isinstance(metadata, dict) or "managedFields" in metadata:
            return None
        # A gated pod's condition has a time; a mirror pod has no account; limit ranges add an annotation.
        annotations = metadata.get("annotations")
        if "schedulingGates" in spec or (annotations and MIRROR_ANNOTATION in annotations):
            return None
        if self._store.latest_list(LIMIT_RANGES, namespace=namespace):
            return None
        try:
            # Unlike JSON this distinguishes 1 from "1", and refuses anything but plain trees.
            sent = marshal.dumps(spec, _NO_REFERENCES)
        except ValueError:
            return None
        if len(sent) > _MAX_SPEC_BYTES:
            return None
        return SpecKey(sent, namespace, tuple(map(self._store.version, _READ_BY_ADMISSION)), tracked)

    def get(self, key: SpecKey | None) -> PreparedSpec | None:
        prepared = None if key is None else self._prepared.get(key)
        if key is not None and prepared is not None:
            self._prepared.move_to_end(key)
        return prepared

    def add(self, key: SpecKey, stored: Obj) -> None:
        """Cache the stored pod under its key."""
        managed = stored["metadata"].get("managedFields")
        if key.tracked and not managed:
            return
        fields = managed[0]["fieldsV1"]["f:spec"] if managed else None
        self._prepared[key] = PreparedSpec(stored["spec"], stored["status"], fields)
        if len(self._prepared) > _MAX_SPECS:
            self._prepared.popitem(last=False)
