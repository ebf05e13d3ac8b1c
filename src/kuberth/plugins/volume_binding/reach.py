"""From which nodes storage can be reached: volumes by node affinity, capacities by topology.

In: node selectors and label selectors. Out: a `Reach`, which gives a mask over a view, and for many of them
in order of preference the first ones that each node reaches. Most storage names the value of one label (a
zone, a host), so that thousands of them cost one lookup per distinct value and not a mask each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import NodeSelector
from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import (
    Operator,
    Requirement,
    Selector,
    compile_label_selector,
    compile_node_selector,
)
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere, has_labels, meets_requirement, nowhere
from kuberth.errors import SelectorError

NONE: Final = np.iinfo(np.int64).max
"""The index that means no choice."""

Ranks = NDArray[np.int64]


class Reach:
    """A set of nodes. `one_of` is set if it is all nodes with one of some values of a label: key, values."""

    __slots__ = ("_mask", "one_of")

    def __init__(
        self, mask: Callable[[Nodes], Mask], one_of: tuple[str, frozenset[str]] | None = None
    ) -> None:
        self._mask = mask
        self.one_of = one_of

    def mask(self, nodes: Nodes) -> Mask:
        return self._mask(nodes)


EVERYWHERE: Final = Reach(everywhere)
NOWHERE: Final = Reach(nowhere)


def reach_of_affinity(required: NodeSelector | None) -> Reach:
    """The nodes that a volume's required node affinity accepts, by labels only: names are ignored."""
    if required is None:
        return EVERYWHERE
    # An invalid term matches no node.
    terms = [term.requirements for term in compile_node_selector(required).terms if not term.errors]
    if len(terms) == 1 and len(terms[0]) == 1:
        return _reach_of_requirement(terms[0][0])

    def mask(nodes: Nodes) -> Mask:
        accepted = nowhere(nodes)
        for requirements in terms:
            meets = everywhere(nodes)
            for requirement in requirements:
                meets &= meets_requirement(nodes, requirement)
            accepted |= meets
        return accepted

    return Reach(mask)


def reach_of_topology(topology: LabelSelector | None) -> Reach:
    """The nodes that can use a capacity; none if the topology is missing or invalid."""
    try:
        selector = compile_label_selector(topology)
    except SelectorError:
        return NOWHERE
    if len(selector.requirements) == 1:
        return _reach_of_requirement(selector.requirements[0])
    return reach_of_selector(selector)


def reach_of_selector(selector: Selector) -> Reach:
    return Reach(lambda nodes: has_labels(nodes, selector))


def _reach_of_requirement(requirement: Requirement) -> Reach:
    one_of = None
    if requirement.meaning is Operator.IN:
        one_of = requirement.key, frozenset(requirement.values)
    return Reach(lambda nodes: meets_requirement(nodes, requirement), one_of)


def first_reachable(nodes: Nodes, reaches: Sequence[Reach], *, number: int = 1) -> Ranks:
    """[choice, node]: the indices of the first `number` of `reaches` that hold the node, in order; `NONE`."""
    by_value: dict[str, dict[str, list[int]]] = {}
    anywhere: list[int] = []
    found: list[Ranks] = []
    for index, reach in enumerate(reaches):
        if reach.one_of is not None:
            key, values = reach.one_of
            firsts = by_value.setdefault(key, {})
            for value in values:
                indices = firsts.get(value)
                if indices is None:
                    firsts[value] = [index]
                elif len(indices) < number:
                    indices.append(index)
        elif reach is EVERYWHERE:
            anywhere.append(index)
            if len(anywhere) == number:
                break  # later ones are not chosen by any node
        else:
            found.append(np.where(reach.mask(nodes), index, NONE)[np.newaxis])
    found += [np.full((1, len(nodes)), index, np.int64) for index in anywhere]
    found += [_by_label(nodes, key, firsts, number=number) for key, firsts in by_value.items()]
    if not found:
        return np.full((number, len(nodes)), NONE, np.int64)
    ranks: Ranks = np.concatenate(found)
    if number == 1:
        return np.minimum.reduce(ranks, axis=0, keepdims=True)
    ranks.sort(axis=0)
    if len(ranks) < number:
        missing = np.full((number - len(ranks), len(nodes)), NONE, np.int64)
        ranks = np.concatenate((ranks, missing))
    return ranks[:number]


def _by_label(nodes: Nodes, key: str, firsts: dict[str, list[int]], *, number: int) -> Ranks:
    """Choices per value of the label, looked up per node."""
    column = nodes.table.label_column(key)
    of_value = np.full((number, len(column.values)), NONE, np.int64)
    present = [(value_id, firsts[value]) for value in firsts if (value_id := column.id_of(value)) is not None]
    for choice in range(number):
        ids = [value_id for value_id, indices in present if len(indices) > choice]
        of_value[choice, ids] = [indices[choice] for _, indices in present if len(indices) > choice]
    return of_value[:, nodes.take(column.ids)]
