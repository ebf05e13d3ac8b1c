"""Finds which of thousands of selectors match a pod's labels, without evaluating each.

In: selectors as they are added and removed. Out: for labels, a mask over all selectors. Selectors are slots
of arrays: the labels of a pod determine which slots have a requirement met or violated, so one pod costs a
few operations on whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Operator, Selector
from kuberth.cluster.arrays import Column, Mask
from kuberth.cluster.counting import resized
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


class SelectorIndex:
    """Label selectors, each in a slot of its own; a slot that is removed is reused first."""

    __slots__ = ("_excluding", "_free", "_long_excluding", "_long_wanting", "_needed", "_wanting", "used")

    def __init__(self) -> None:
        self.used = 0
        """The number of slots that were ever used."""
        self._free: list[int] = []
        self._needed: NDArray[np.int32] = np.full(_FIRST_CAPACITY, _NEVER, np.int32)
        """int32[slot]: how many requirements require a label to exist."""
        self._wanting: dict[LabelPair, _Slots] = {}
        self._excluding: dict[LabelPair, _Slots] = {}
        self._long_wanting: dict[str, _ValueLists] = {}
        """By key: requirements with many values."""
        self._long_excluding: dict[str, _ValueLists] = {}

    def file(self, selector: Selector) -> int:
        """Add a selector; returns its slot."""
        if self._free:
            slot = self._free.pop()
        else:
            slot, self.used = self.used, self.used + 1
            if slot == len(self._needed):
                self._needed = resized(self._needed, 2 * slot)
                self._needed[slot:] = _NEVER
        self._needed[slot] = self._require(slot, selector, 1)
        return slot

    def remove(self, slot: int, selector: Selector) -> None:
        """Remove the selector of a slot."""
        self._require(slot, selector, -1)
        self._needed[slot] = _NEVER
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

    def matched(self, labels: Mapping[str, str]) -> Mask:
        """Per slot: whether its selector matches the labels."""
        met = np.zeros(self.used, np.int32)
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
        matched: Mask = met == self._needed[: self.used]
        return matched
