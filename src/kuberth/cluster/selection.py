"""Which nodes of a view a rule accepts: evaluated once per distinct value, then looked up per row.

In: a view and a compiled selector or a list of tolerations. Out: a mask over the view's positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Taint
from kuberth.api.selectors import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    CompiledPreferredTerm,
    FieldRequirement,
    Operator,
    RequiredNodeAffinity,
    Requirement,
    Selector,
)
from kuberth.cluster.arrays import Column, Mask
from kuberth.cluster.labels import LabelColumn
from kuberth.cluster.nodes import Nodes

_COMPARING: Final = (Operator.GREATER_THAN, Operator.LESS_THAN)


def everywhere(nodes: Nodes) -> Mask:
    """Every position."""
    return np.ones(len(nodes), np.bool_)


def nowhere(nodes: Nodes) -> Mask:
    """No position."""
    return np.zeros(len(nodes), np.bool_)


def named(nodes: Nodes, name: str) -> Mask:
    """The position of the node with this name, if the view has it."""
    mask = nowhere(nodes)
    if (position := nodes.position(name)) is not None:
        mask[position] = True
    return mask


def meets_requirement(nodes: Nodes, requirement: Requirement) -> Mask:
    """Nodes whose label meets one requirement."""
    column = nodes.table.label_column(requirement.key)
    return np.take(column.answers(requirement), nodes.take(column.ids))


def has_labels(nodes: Nodes, selector: Selector) -> Mask:
    """Nodes whose labels a label selector accepts."""
    if selector.matches_nothing:
        return nowhere(nodes)
    return _meets_all(nodes, selector.requirements)


def _meets_all(nodes: Nodes, requirements: Iterable[Requirement]) -> Mask:
    mask = everywhere(nodes)
    for requirement in requirements:
        mask &= meets_requirement(nodes, requirement)
        if not mask.any():  # a pod can have thousands of requirements that no node meets
            break
    return mask


def meets_term(nodes: Nodes, term: CompiledNodeSelectorTerm) -> Mask:
    """Nodes that one term of a node selector accepts; a term with an error accepts none."""
    if term.errors or not (term.requirements or term.fields):
        return nowhere(nodes)
    mask = _meets_all(nodes, term.requirements)
    for field in term.fields:
        mask &= meets_field(nodes, field)
    return mask


def sum_of_weights(nodes: Nodes, preferred: Iterable[CompiledPreferredTerm]) -> Column:
    """Per node, the sum of the weights of all terms that accept it.

    Terms with one requirement on one label are added up per value of the label, and looked up once for all.
    """
    sums = np.zeros(len(nodes), np.int64)
    of_all = 0
    by_key: dict[str, tuple[LabelColumn, Column]] = {}
    for each in preferred:
        term, weight = each.term, each.weight
        if term.errors or term.fields or len(term.requirements) != 1:
            sums += weight * meets_term(nodes, term)
            continue
        (requirement,) = term.requirements
        found = by_key.get(requirement.key)
        if found is None:
            column = nodes.table.label_column(requirement.key)
            found = by_key[requirement.key] = column, np.zeros(len(column.values), np.int64)
        column, by_value = found
        if requirement.meaning in _COMPARING or len(requirement.values) > len(by_value):
            by_value += weight * column.answers(requirement)
            continue
        usually, others = column.exceptions(requirement)
        if usually:
            of_all += weight
        for identity in others:
            by_value[identity] += -weight if usually else weight
    for column, by_value in by_key.values():
        sums += np.take(by_value, nodes.take(column.ids))
    sums += of_all
    return sums


def meets_field(nodes: Nodes, requirement: FieldRequirement) -> Mask:
    """Nodes whose field meets one requirement; the name is the only field, any other is empty."""
    if requirement.field != "metadata.name":
        return everywhere(nodes) if requirement.matches_value("") else nowhere(nodes)
    has_name = named(nodes, requirement.value)
    return ~has_name if requirement.negated else has_name


def meets_node_selector(nodes: Nodes, selector: CompiledNodeSelector) -> Mask:
    """Nodes that any term accepts."""
    mask = nowhere(nodes)
    for term in selector.terms:
        mask |= meets_term(nodes, term)
    return mask


def meets_required_affinity(nodes: Nodes, affinity: RequiredNodeAffinity) -> Mask:
    """The nodes that match both a pod's nodeSelector and its required node affinity."""
    mask = everywhere(nodes)
    if affinity.selector is not None:
        mask &= has_labels(nodes, affinity.selector)
    if affinity.node_selector is not None:
        mask &= meets_node_selector(nodes, affinity.node_selector)
    return mask


def by_taints(nodes: Nodes, evaluate: Callable[[Sequence[Taint]], int]) -> NDArray[np.int64]:
    """The results of `evaluate` per node, computed once per distinct list of taints."""
    column = nodes.table.taints
    answers = np.fromiter(map(evaluate, column.values), np.int64, len(column.values))
    return np.take(answers, nodes.take(column.ids))
