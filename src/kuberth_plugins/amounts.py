"""Amounts of resources in the units of the cluster table: thousandths of a core, bytes, units.

In: quantities of custom resources, and requests of pods. Out: integers that can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberth.api import PodRequest
from kuberth.api.quantity import parse


def amounts_of(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """The amounts of a resource list; QuantityError for an invalid quantity."""
    return {
        name: parse(quantity).milli_value() if name == "cpu" else parse(quantity).value()
        for name, quantity in (quantities or {}).items()
    }


def requests_of(request: PodRequest) -> dict[str, int]:
    """The requests of a pod, by resource; `pods` counts one per pod."""
    return {**request.amounts(), "pods": 1}
