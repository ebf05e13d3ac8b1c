"""Declares all functions of selectors.

In: the libraries of CEL, of its extensions and of Kubernetes, in kube-scheduler's order. Out: the functions
by name.
"""

from __future__ import annotations

from kuberth.cel.declarations import Function, collect
from kuberth.cel.library import (
    addresses,
    authorization,
    collections,
    conversions,
    formats,
    lists,
    operators,
    quantities,
    strings,
    times,
    urls,
    versions,
)

FUNCTIONS: dict[str, Function] = collect(
    operators.LIBRARY,
    conversions.LIBRARY,
    collections.LIBRARY,
    strings.STANDARD,
    times.LIBRARY,
    urls.LIBRARY,
    lists.KUBERNETES,
    authorization.LIBRARY,
    collections.OPTIONALS,
    quantities.LIBRARY,
    strings.LIBRARY,
    lists.SETS,
    addresses.LIBRARY,
    formats.LIBRARY,
    versions.LIBRARY,
    lists.LIBRARY,
)
for _name, _operator in {
    **operators.OPERATORS,
    **conversions.OPERATORS,
    **collections.OPERATORS,
    **strings.OPERATORS,
    **lists.OPERATORS,
}.items():
    FUNCTIONS[_name].operator = _operator
for _name in ("contains", "startsWith", "endsWith", "flatten"):
    FUNCTIONS[_name].guarded = False  # these check their arguments themselves
