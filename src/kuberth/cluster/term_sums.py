"""Matches a pod against thousands of terms at once, and sums their weights per row.

In: terms as they are added and removed, and the rows of the pods that carry them. Out: for a pod, a mask over
all terms, and sums per row of the matching ones. Terms are slots of arrays: the labels of a pod determine
which slots have a requirement met or violated, so one pod costs a few operations on whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Operator, Selector
from kuberth.cluster.arrays import Column, Mask
from kuberth.cluster.counting import resized
from kuberth.cluster.pod_info import PodMatcher
from kuberth.cluster.term_index import LabelPair, present

_FEW_VALUES: Final = 8
"""Requirements with more values are not indexed by value, which would take too much memory."""
_HASHED_VALUES: Final = 64
"""Requirements with more values are not even hashed: there are too few such requirements to matter."""
_FIRST_CAPACITY: Final = 16
_NEVER: Final = 1
"""The count for a slot that matches nothing, whatever requirements are met."""


class _Slots:
    """Slots with the number of their requirements that are indexed here."""

    __slots__ = ("_arrays", "times")

    def __init__(self) -> None:
        self.times: dict[int, int] = {}
        self._arrays: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None

    def add(self, slot: int, number: int) -> None:
        self._arrays = None
        times = self.times.get(slot, 0) + number
        if times:
            self.times[slot] = times
        else:
            del self.times[slot]

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        if self._arrays is None:
            number = len(self.times)
            self._arrays = (
                np.fromiter(self.times.keys(), np.int64, number),
                np.fromiter(self.times.values(), np.int32, number),
            )
        return self._arrays


class _ValueLists:
    """Requirements about one label with a list of values each, by slot and index in the selector.

    All values of shorter lists are hashes in one array: a label's value is compared with all of them at once.
    """

    __slots__ = ("_dead", "_hashes", "_lists", "_long", "_owners", "_used", "_where")

    def __init__(self) -> None:
        self._long: dict[tuple[int, int], frozenset[str]] = {}
        self._lists: dict[int, tuple[tuple[int, int], frozenset[str]]] = {}
        """Requirements by the start of their hashes."""
        self._where: dict[tuple[int, int], int] = {}
        self._hashes: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._owners: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        """int64[hash]: the start of the hashes of the same list; -1 for removed ones."""
        self._used = self._dead = 0

    def __bool__(self) -> bool:
        return bool(self._long or self._lists)

    def add(self, place: tuple[int, int], values: frozenset[str]) -> None:
        if len(values) > _HASHED_VALUES:
            self._long[place] = values
            return
        start, end = self._used, self._used + len(values)
        if end > len(self._hashes):
            self._hashes = resized(self._hashes, 2 * end)
            self._owners = resized(self._owners, 2 * end)
        self._hashes[start:end] = [*map(hash, values)]
        self._owners[start:end] = start
        self._lists[start], self._where[place], self._used = (place, values), start, end

    def remove(self, place: tuple[int, int]) -> None:
        if self._long.pop(place, None) is not None:
            return
        start = self._where.pop(place)
        number = len(self._lists.pop(start)[1])
        self._owners[start : start + number] = -1
        self._dead += number
        if 2 * self._dead > self._used:
            self._close_gaps()

    def _close_gaps(self) -> None:
        hashes, owners = self._hashes[: self._used], self._owners[: self._used]
        kept = owners >= 0
        moved = np.cumsum(kept) - 1
        starts = np.fromiter(self._lists, np.int64, len(self._lists))
        self._lists = dict(zip(moved[starts].tolist(), self._lists.values(), strict=True))
        self._where = {place: start for start, (place, _) in self._lists.items()}
        self._hashes, self._owners = hashes[kept], moved[owners[kept]]
        self._used, self._dead = len(self._hashes), 0

    def slots_with(self, value: str) -> Iterator[int]:
        """The slots whose lists contain the value, once for each list."""
        yield from (slot for (slot, _), values in self._long.items() if value in values)
        for start in self._owners[: self._used][self._hashes[: self._used] == hash(value)].tolist():
            if start >= 0:
                (slot, _), values = self._lists[start]
                if value in values:
                    yield slot


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
        self._used = 0
        self._free: list[int] = []
        self._needed: NDArray[np.int32] = np.full(_FIRST_CAPACITY, _NEVER, np.int32)
        """int32[slot]: how many requirements require a label to exist."""
        self._weights: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._group: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._groups = _NamespaceGroups()
        self._wanting: dict[LabelPair, _Slots] = {}
        self._excluding: dict[LabelPair, _Slots] = {}
        self._long_wanting: dict[str, _ValueLists] = {}
        """By key: requirements with many values."""
        self._long_excluding: dict[str, _ValueLists] = {}
        self._entries: dict[int, int] = {}
        """By slot and row: the index of the pod count in the arrays."""
        self._free_entries: list[int] = []
        self._entry_slot: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._entry_row: Column = np.zeros(_FIRST_CAPACITY, np.int64)
        self._entry_number: Column = np.zeros(_FIRST_CAPACITY, np.int64)

    def file(self, pods: PodMatcher, weight: int) -> int:
        """Add a term with its weight; returns its slot."""
        self.version += 1
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._used = self._used, self._used + 1
            if slot == len(self._weights):
                self._weights = resized(self._weights, 2 * slot)
                self._group = resized(self._group, 2 * slot)
                self._needed = resized(self._needed, 2 * slot)
                self._needed[slot:] = _NEVER
        self._needed[slot] = self._require(slot, pods.selector, 1)
        self._weights[slot] = weight
        self._group[slot] = self._groups.take(pods)
        return slot

    def remove(self, slot: int, pods: PodMatcher) -> None:
        """Remove a term."""
        self.version += 1
        self._require(slot, pods.selector, -1)
        self._needed[slot] = _NEVER
        self._groups.release(int(self._group[slot]))
        self._free.append(slot)

    def _require(self, slot: int, selector: Selector, number: int) -> int:
        """Add (1) or remove (-1) the requirements; returns how many of them require a label to exist."""
        if selector.matches_nothing:
            return _NEVER
        needed = 0
        for index, requirement in enumerate(selector.requirements):
            meaning, key = requirement.meaning, requirement.key
            wants = meaning in (Operator.IN, Operator.EXISTS)
            needed += wants
            if meaning in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
                pairs: Iterator[LabelPair] = iter((present(key),))
            elif len(requirement.values) <= _FEW_VALUES:
                pairs = ((key, value) for value in dict.fromkeys(requirement.values))
            else:
                long = self._long_wanting if wants else self._long_excluding
                if (lists := long.get(key)) is None:
                    lists = long[key] = _ValueLists()
                if number > 0:
                    lists.add((slot, index), requirement.value_set)
                else:
                    lists.remove((slot, index))
                    if not lists:
                        del long[key]
                continue
            filed = self._wanting if wants else self._excluding
            for pair in pairs:
                if (slots := filed.get(pair)) is None:
                    slots = filed[pair] = _Slots()
                slots.add(slot, number)
                if not slots.times:
                    del filed[pair]
        return needed

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
        used = self._used
        met = np.zeros(used, np.int32)
        for key, value in labels.items():
            for pair in ((key, value), present(key)):
                if (wanting := self._wanting.get(pair)) is not None:
                    slots, times = wanting.arrays()
                    met[slots] += times
                if (excluding := self._excluding.get(pair)) is not None:
                    slots, times = excluding.arrays()
                    met[slots] -= times
            for change, long in ((1, self._long_wanting), (-1, self._long_excluding)):
                if (compared := long.get(key)) is not None:
                    for slot in compared.slots_with(value):
                        met[slot] += change
        matched: Mask = met == self._needed[:used]
        matched &= self._groups.answers(namespace, namespace_labels).take(self._group[:used])
        return matched

    def total_weight(self, matched: Mask) -> int:
        """The sum of the matching terms' weights."""
        return int(self._weights[: len(matched)][matched].sum())

    def by_row(self, matched: Mask, *, weighted: bool) -> Column:
        """Per row: the number of matching terms on its pods; `weighted`: the sum of their weights."""
        used = len(self._entries) + len(self._free_entries)
        slots = self._entry_slot[:used]
        if len(matched) < self._used:
            matched = resized(matched, self._used)
        chosen = np.flatnonzero(matched.take(slots) & (self._entry_number[:used] != 0))
        amounts = self._entry_number.take(chosen)
        if weighted:
            amounts *= self._weights.take(slots.take(chosen))
        rows = self._entry_row.take(chosen)
        column = np.zeros(int(rows.max(initial=0)) + 1, np.int64)
        np.add.at(column, rows, amounts)
        return column
