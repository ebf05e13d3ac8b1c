"""Matches a pod against thousands of terms at once, and sums their weights per row.

In: terms as they are added and removed, and the rows of the pods that carry them. Out: for a pod, a mask over
all terms, and sums per row of the matching ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kuberth.api.selectors import Selector
from kuberth.cluster.arrays import Column, Mask
from kuberth.cluster.counting import resized
from kuberth.cluster.pod_info import PodMatcher
from kuberth.cluster.selector_index import SelectorIndex

_FIRST_CAPACITY: Final = 16


class _NamespaceGroups:
    """Distinct namespace matchers, and which of them match a namespace."""

    __slots__ = ("_answers", "_changed", "_free", "_ids", "_matchers", "_uses")

    def __init__(self) -> None:
        self._ids: dict[tuple[frozenset[str], Selector], int] = {}
        self._matchers: list[tuple[frozenset[str], Selector]] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._changed: list[int] = []
        """Ids in the order in which they were assigned."""
        self._answers: dict[str, tuple[int, Mask]] = {}
        """By namespace: the processed part of `_changed`, and the result for every id."""

    def take(self, pods: PodMatcher) -> int:
        """Return the id of the matcher and increase its use count."""
        matcher = (pods.namespaces, pods.namespace_selector)
        found = self._ids.get(matcher)
        if found is None:
            if self._free:
                found = self._free.pop()
                self._matchers[found] = matcher
            else:
                found = len(self._matchers)
                self._matchers.append(matcher)
                self._uses.append(0)
            self._ids[matcher] = found
            self._changed.append(found)
            if len(self._changed) > 1024 + 2 * len(self._ids):
                self._changed.clear()
                self._answers.clear()
        self._uses[found] += 1
        return found

    def release(self, identity: int) -> None:
        self._uses[identity] -= 1
        if not self._uses[identity]:
            del self._ids[self._matchers[identity]]
            self._free.append(identity)

    def answers(self, namespace: str, labels: Mapping[str, str]) -> Mask:
        """Per id: whether it matches the namespace with these labels."""
        cached = self._answers.get(namespace)
        outdated: range | list[int]
        if cached is None:
            answers, outdated = np.zeros(len(self._matchers), np.bool_), range(len(self._matchers))
        else:
            followed, answers = cached
            outdated = self._changed[followed:]
            if len(answers) < len(self._matchers):
                answers = resized(answers, 2 * len(self._matchers))
        matchers = self._matchers
        for identity in outdated:
            names, selector = matchers[identity]
            answers[identity] = namespace in names or selector.matches(labels)
        self._answers[namespace] = len(self._changed), answers
        return answers

    def forget(self, namespace: str) -> None:
        """Drop the results for a namespace whose labels have changed."""
        self._answers.pop(namespace, None)


class TermSums:
    """The terms of one topology key."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change."""
        self._selectors = SelectorIndex()
        self._weights: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._group: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._groups = _NamespaceGroups()
        self._entries: dict[int, int] = {}
        """By slot and row: the index of the pod count in the arrays."""
        self._free_entries: list[int] = []
        self._entry_slot: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._entry_row: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._entry_number: Column = np.zeros(_FIRST_CAPACITY, np.int64)

    def file(self, pods: PodMatcher, weight: int) -> int:
        """Add a term with its weight; returns its slot."""
        self.version += 1
        slot = self._selectors.file(pods.selector)
        if slot == len(self._weights):
            self._weights = resized(self._weights, 2 * slot)
            self._group = resized(self._group, 2 * slot)
        self._weights[slot] = weight
        self._group[slot] = self._groups.take(pods)
        return slot

    def remove(self, slot: int, pods: PodMatcher) -> None:
        """Remove a term."""
        self.version += 1
        self._selectors.remove(slot, pods.selector)
        self._groups.release(int(self._group[slot]))

    def forget_namespace(self, name: str) -> None:
        """Drop the results for a namespace whose labels have changed."""
        self._groups.forget(name)

    # Rows of the pods that carry the terms

    def add(self, slot: int, row: int, number: int) -> None:
        """Change the number of pods with the term on a row."""
        self.version += 1
        key = slot << 32 | row
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._new_entry()
            self._entry_slot[entry], self._entry_row[entry] = slot, row
        self._entry_number[entry] += number
        if not self._entry_number[entry]:
            del self._entries[key]
            self._free_entries.append(entry)

    def _new_entry(self) -> int:
        if self._free_entries:
            return self._free_entries.pop()
        entry = len(self._entries)
        if entry == len(self._entry_slot):
            self._entry_slot = resized(self._entry_slot, 2 * entry)
            self._entry_row = resized(self._entry_row, 2 * entry)
            self._entry_number = resized(self._entry_number, 2 * entry)
        return entry

    # Matching

    def matched(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> Mask:
        """Per slot: whether its term matches a pod with these labels, in a namespace with those."""
        matched = self._selectors.matched(labels)
        matched &= self._groups.answers(namespace, namespace_labels).take(self._group[: len(matched)])
        return matched

    def total_weight(self, matched: Mask) -> int:
        """The sum of the matching terms' weights."""
        return int(self._weights[: len(matched)][matched].sum())

    def by_row(self, matched: Mask, *, weighted: bool) -> Column:
        """Per row: the number of matching terms on its pods; `weighted`: the sum of their weights."""
        used = len(self._entries) + len(self._free_entries)
        slots = self._entry_slot[:used]
        if len(matched) < self._selectors.used:
            matched = resized(matched, self._selectors.used)
        chosen = np.flatnonzero(matched.take(slots) & (self._entry_number[:used] != 0))
        amounts = self._entry_number.take(chosen)
        if weighted:
            amounts *= self._weights.take(slots.take(chosen))
        rows = self._entry_row.take(chosen)
        column = np.zeros(int(rows.max(initial=0)) + 1, np.int64)
        np.add.at(column, rows, amounts)
        return column
