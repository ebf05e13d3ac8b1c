"""Label, field and node selectors, compiled once and evaluated often.

In: selector structs and selector strings of the API. Out: immutable, hashable objects with `matches`.
Requirements also match single label values, so that a column is evaluated once per distinct value.
"""

from __future__ import annotations

from kuberth.api.selectors.fields import (
    FieldRequirement,
    FieldSelector,
    escape_field_value,
    parse_field_selector,
)
from kuberth.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    compile_label_selector,
    is_label_key,
    is_label_value,
    new_requirement,
    selector_from_set,
)
from kuberth.api.selectors.nodes import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    CompiledPreferredTerm,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred_terms,
    required_node_affinity,
    required_node_selector,
)
from kuberth.api.selectors.parsing import parse_selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "CompiledNodeSelector",
    "CompiledNodeSelectorTerm",
    "CompiledPreferredTerm",
    "FieldRequirement",
    "FieldSelector",
    "Operator",
    "RequiredNodeAffinity",
    "Requirement",
    "Selector",
    "compile_label_selector",
    "compile_node_selector",
    "compile_preferred_terms",
    "escape_field_value",
    "is_label_key",
    "is_label_value",
    "new_requirement",
    "parse_field_selector",
    "parse_selector",
    "required_node_affinity",
    "required_node_selector",
    "selector_from_set",
]
