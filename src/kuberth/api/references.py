"""Shapes shared by every corner of the core group: references to objects, and resource lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kuberth.api.wire import Wire

# As written on the wire: JSON numbers are legal quantities. `kuberth.api.quantity` reads them.
QuantityValue: TypeAlias = str | int | float
ResourceList: TypeAlias = Mapping[str, QuantityValue]


class ObjectReference(Wire):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
