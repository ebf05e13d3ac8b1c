"""Selectors and terms of a pod in kubectl's notation.

In: a selector, a requirement or a term. Out: its text.
"""

from __future__ import annotations

from kuberth.api.core import PodAffinityTerm, TopologySpreadConstraint
from kuberth.api.meta import LabelSelector, LabelSelectorRequirement
from kuberth.api.nodes import NodeSelectorRequirement


def selector_text(selector: LabelSelector | None) -> str:
    """`app=db, tier in (a, b)`."""
    if selector is None:
        return "no labels that could match"
    parts = [f"{key}={wanted}" for key, wanted in selector.match_labels.items()]
    parts += map(requirement_text, selector.match_expressions)
    return ", ".join(parts) or "any labels"


def requirement_text(requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    values = ", ".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} not in ({values})"
        case "Exists":
            return f"the key {requirement.key}"
        case "DoesNotExist":
            return f"no key {requirement.key}"
        case _:
            return f"{requirement.key} {requirement.operator} {values}"


def affinity_text(term: PodAffinityTerm) -> str:
    """`app=db within kubernetes.io/hostname`, with the namespaces if the term names some."""
    where = f" in namespace {' or '.join(sorted(term.namespaces))}" if term.namespaces else ""
    if term.namespace_selector is not None:
        where = f" in a namespace with {selector_text(term.namespace_selector)}"
    return f"{selector_text(term.label_selector)}{where} within {term.topology_key}"


def spread_text(constraint: TopologySpreadConstraint) -> str:
    """`app=db over topology.kubernetes.io/zone`."""
    return f"{selector_text(constraint.label_selector)} over {constraint.topology_key}"
