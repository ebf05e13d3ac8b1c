"""Node selectors: the terms with which pods and volumes select nodes.

In: a `NodeSelector`, preferred terms, or a pod. Out: compiled terms over a node's labels and name. A term
that cannot be compiled stores its errors; as upstream, they are raised only if no other term matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kuberth.api.nodes import NodeSelector, NodeSelectorTerm
from kuberth.api.pods import Pod, PreferredSchedulingTerm
from kuberth.api.selectors.fields import FieldRequirement
from kuberth.api.selectors.labels import (
    LABEL_OPERATORS,
    Operator,
    Requirement,
    Selector,
    new_requirement,
    selector_from_set,
)
from kuberth.errors import SelectorError

_OPERATORS = {**LABEL_OPERATORS, "Gt": Operator.GREATER_THAN, "Lt": Operator.LESS_THAN}


@dataclass(frozen=True, slots=True)
class CompiledNodeSelectorTerm:
    """A term that matches if its requirements on labels and on the node's name all hold.

    With `errors` it never matches, and has no requirements.
    """

    requirements: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.errors:
            return False
        get = labels.get
        return all(
            requirement.matches_value(get(requirement.key)) for requirement in self.requirements
        ) and self.matches_name(name)

    def matches_name(self, name: str) -> bool:
        """Whether the matchFields match; as upstream, they match every node without a name."""
        if not name:
            return True
        return all(
            # Only the name can be selected; upstream treats any other field as empty.
            field.matches_value(name if field.field == "metadata.name" else "")
            for field in self.fields
        )


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """Terms of which one must match. Empty terms, which match no node, are omitted."""

    terms: tuple[CompiledNodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a term matches. If none does and one could not be compiled, raises `SelectorError`."""
        if any(term.matches(labels, name) for term in self.terms):
            return True
        self.check()
        return False

    @property
    def length(self) -> int:
        """The number of terms, requirements and values."""
        return sum(
            1 + len(term.fields) + sum(1 + len(each.values) for each in term.requirements)
            for term in self.terms
        )

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(error for term in self.terms for error in term.errors)

    def check(self) -> None:
        """Raise `SelectorError` if any term could not be compiled."""
        if self.errors:
            raise SelectorError("; ".join(self.errors))


@dataclass(frozen=True, slots=True)
class CompiledPreferredTerm:
    """A node gains `weight` if the term matches."""

    weight: int
    term: CompiledNodeSelectorTerm


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's nodeSelector and required node affinity together; None if the pod has none."""

    selector: Selector | None = None
    node_selector: CompiledNodeSelector | None = None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether the node satisfies both; raises as `CompiledNodeSelector.matches` does."""
        if self.selector is not None and not self.selector.matches(labels):
            return False
        return self.node_selector is None or self.node_selector.matches(labels, name)


def compile_node_selector(selector: NodeSelector, *, path: str = "nodeSelectorTerms") -> CompiledNodeSelector:
    """Compile all terms; never raises. `CompiledNodeSelector.check` raises for invalid terms."""
    return CompiledNodeSelector(
        tuple(
            _compile_term(term, f"{path}[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


def compile_preferred_terms(terms: Iterable[PreferredSchedulingTerm]) -> tuple[CompiledPreferredTerm, ...]:
    """Compile the terms with a weight and requirements; SelectorError with all their errors."""
    compiled = tuple(
        CompiledPreferredTerm(preferred.weight, _compile_term(preferred.preference, f"[{index}]"))
        for index, preferred in enumerate(terms)
        if preferred.weight != 0 and not _is_empty(preferred.preference)
    )
    errors = [error for preferred in compiled for error in preferred.term.errors]
    if errors:
        raise SelectorError("; ".join(errors))
    return compiled


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """The node selector and required node affinity of a pod."""
    labels, required = pod.spec.node_selector, required_node_selector(pod)
    return RequiredNodeAffinity(
        selector_from_set(labels) if labels else None,
        None if required is None else compile_node_selector(required),
    )


def required_node_selector(pod: Pod) -> NodeSelector | None:
    """The node selector of the pod's required node affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _compile_term(term: NodeSelectorTerm, path: str) -> CompiledNodeSelectorTerm:
    errors: list[str] = []
    requirements: list[Requirement] = []
    for index, expression in enumerate(term.match_expressions):
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            where = f"{path}.matchExpressions[{index}]"
            errors.append(f"{where}.operator: {expression.operator!r} is not one of {', '.join(_OPERATORS)}")
            continue
        try:
            requirements.append(new_requirement(expression.key, operator, values=expression.values))
        except SelectorError as error:
            errors.append(f"{path}.matchExpressions[{index}]: {error}")
    fields: list[FieldRequirement] = []
    for index, expression in enumerate(term.match_fields):
        where = f"{path}.matchFields[{index}]"
        if expression.operator not in ("In", "NotIn"):
            errors.append(f"{where}.operator: {expression.operator!r} is not one of In, NotIn")
        elif len(expression.values) != 1:
            errors.append(f"{where}.values: must have one element, got {list(expression.values)}")
        else:
            negated = expression.operator == "NotIn"
            fields.append(FieldRequirement(expression.key, expression.values[0], negated))
    if errors:
        return CompiledNodeSelectorTerm(errors=tuple(errors))
    return CompiledNodeSelectorTerm(tuple(requirements), tuple(fields))
