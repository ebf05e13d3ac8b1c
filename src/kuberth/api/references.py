"""Types that the whole core group uses: references to objects, and resource lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kuberth.api.wire import Wire

# As in JSON, where numbers are valid quantities; `kuberth.api.quantity` parses them.
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
