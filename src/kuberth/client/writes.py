"""A write to the API as a value.

In: the verb, the object and the preconditions. Out: a `Write`, which every implementation of
`kuberth.client.protocol.Api` performs with one method, and which describes itself in messages.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from kuberth.api.core import Binding, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.client.rest.resource_paths import object_name

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
METADATA_ALONE: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""The media types to accept if the returned object is not needed."""
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


class Verb(enum.StrEnum):
    """The verb of a write."""

    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"


class Write(msgspec.Struct, frozen=True):
    """A write. `str(write)` describes it for messages: "patch status of Pod default/web"."""

    verb: Verb
    """Create, update, patch or delete."""
    kind: type[Any]
    """The struct of the object's kind."""
    name: str
    """The object's name; empty if the server generates it."""
    namespace: str = ""
    """Empty for kinds without namespaces."""
    subresource: str = ""
    """`status`, `binding` or similar; empty for the object itself."""
    body: Any = None
    """The object, or the patch as a mapping; `bytes` are JSON to be sent unchanged."""
    uid: str = ""
    """The UID that the object to delete must have; empty for any."""
    grace_period_seconds: int | None = None
    """The grace period of a deletion; None is the object's own."""
    description: str = ""
    """Replaces the description derived from the other fields."""
    wants_answer: bool = True
    """Whether the object is of use that the server answers with: that of a pod can be megabytes long."""

    @property
    def content_type(self) -> str:
        """The media type of the body; registered kinds have no known merge keys, so a patch is plain."""
        if self.verb is not Verb.PATCH:
            return JSON
        return MERGE_PATCH if REGISTRY.of(self.kind).registered else STRATEGIC_MERGE_PATCH

    @property
    def delete_options(self) -> dict[str, Any]:
        """The body of a deletion."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if self.uid:
            options["preconditions"] = {"uid": self.uid}
        if self.grace_period_seconds is not None:
            options["gracePeriodSeconds"] = self.grace_period_seconds
        return options

    def __str__(self) -> str:
        if self.description:
            return self.description
        if isinstance(self.body, Binding):
            return f"bind pod {self.namespace}/{self.name} to node {self.body.target.name}"
        name = self.name or self.body.metadata.generate_name
        return f"{self.verb} {object_name(REGISTRY.of(self.kind), name, self.namespace, self.subresource)}"


def write_of_object(verb: Verb, obj: Any, *, subresource: str = "") -> Write:
    """The creation or update of an object under its own name."""
    metadata = obj.metadata
    return Write(verb, type(obj), metadata.name, metadata.namespace, subresource, obj)


def write_of_binding(binding: Binding) -> Write:
    """The creation of a pod's binding subresource."""
    metadata = binding.metadata
    return Write(Verb.CREATE, Pod, metadata.name, metadata.namespace, "binding", binding)
