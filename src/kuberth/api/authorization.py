"""The authorization.k8s.io group (v1): access reviews by the API server."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import Wire, always


class NonResourceAttributes(Wire):
    path: str = ""
    verb: str = ""


class ResourceAttributes(Wire):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class SubjectAccessReviewSpec(Wire):
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    uid: str = ""


class SubjectAccessReviewStatus(Wire):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(Wire):
    api_version: str = always("authorization.k8s.io/v1")
    kind: str = always("SubjectAccessReview")
    metadata: ObjectMeta = ObjectMeta()
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
