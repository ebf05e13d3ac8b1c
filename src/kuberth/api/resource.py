"""resource.k8s.io: claims of devices and what offers them (DRA), read as plain trees for now."""

from __future__ import annotations

from kuberth.api.plain import PlainObject


class ResourceClaim(PlainObject):
    api_version = "resource.k8s.io/v1"
    kind = "ResourceClaim"


class ResourceSlice(PlainObject):
    api_version = "resource.k8s.io/v1"
    kind = "ResourceSlice"


class DeviceClass(PlainObject):
    api_version = "resource.k8s.io/v1"
    kind = "DeviceClass"
