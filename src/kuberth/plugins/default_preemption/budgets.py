"""Disruption budgets: which evictions would violate one.

In: the PodDisruptionBudgets of the cluster, and victims by descending priority. Out: the victims that would
violate a budget, and the others. Only changed budgets are parsed again, and disruptions are counted in
columns, so that thousands of budgets cost a preemption little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.selectors import Selector, compile_label_selector
from kuberth.changes import Changes
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import resized
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selector_index import SelectorIndex
from kuberth.errors import SelectorError
from kuberth.informers.store import Store

Places = NDArray[np.int64]


class _Budget(NamedTuple):
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Pods whose eviction the API server has already counted."""


class Split(NamedTuple):
    """Victims by whether they violate a budget, each group in the given order."""

    violating: Sequence[PodInfo]
    """Victims whose eviction would violate a budget."""
    others: Sequence[PodInfo]
    covering: frozenset[str]
    """The keys of all budgets that were considered."""


ANY_PODS: Final = ""
"""Not a budget's key: the pods that budgets cover have changed."""
_NO_BUDGETS: Final[frozenset[str]] = frozenset()


_MAX_CACHED: Final = 1 << 18
"""How many budgets the cached results of one namespace may list together."""


class _Cover(NamedTuple):
    """Budgets that cover the same pods: one object for all pods that exactly these cover."""

    places: Places
    keys: frozenset[str]


class _Namespace:
    """The budgets of one namespace, each with an index into the columns of disruptions."""

    def __init__(self) -> None:
        self._selectors = SelectorIndex()
        self._places: dict[str, int] = {}
        """By key: the budget's slot in the index and in the columns."""
        self._keys: list[str] = []
        """[place]"""
        self.allowed: Column = np.zeros(0, np.int64)
        """int64[index]: the remaining disruptions of the budget."""
        self.already_disrupted: dict[str, set[int]] = {}
        """By pod, the indices of budgets that have already counted its eviction."""
        self._forget()

    def __len__(self) -> int:
        return len(self._places)

    def change(self, key: str, old: _Budget | None, new: _Budget | None) -> None:
        """Apply a new, changed or deleted budget."""
        is_refiled = old is None or new is None or old.selector != new.selector
        if is_refiled:
            self._forget()
        if old is not None:
            place = self._places[key]
            for name in old.disrupted:
                self.already_disrupted[name].discard(place)
                if not self.already_disrupted[name]:
                    del self.already_disrupted[name]
            if is_refiled:
                self._selectors.remove(self._places.pop(key), old.selector)
        if new is not None:
            place = self._file(key, new.selector) if is_refiled else self._places[key]
            self.allowed[place] = new.allowed
            for name in new.disrupted:
                self.already_disrupted.setdefault(name, set()).add(place)

    def _file(self, key: str, selector: Selector) -> int:
        place = self._places[key] = self._selectors.file(selector)
        if place == len(self._keys):
            self._keys.append("")
            if place == len(self.allowed):
                self.allowed = resized(self.allowed, 2 * place + 8)
        self._keys[place] = key
        return place

    def _forget(self) -> None:
        self._covers: dict[bytes, _Cover] = {}
        self._cover_of: dict[frozenset[tuple[str, str]], _Cover] = {}
        self._kept = 0

    def cover(self, labels: Mapping[str, str]) -> _Cover:
        """The budgets that cover pods with these labels."""
        pairs = frozenset(labels.items())
        cover = self._cover_of.get(pairs)
        if cover is None:
            places = np.flatnonzero(self._selectors.matched(labels))
            if self._kept > _MAX_CACHED:
                self._forget()
            cover = self._covers.get(places.tobytes())
            if cover is None:
                cover = _Cover(places, frozenset(self._keys[place] for place in places.tolist()))
                self._covers[places.tobytes()] = cover
                self._kept += len(places)
            self._cover_of[pairs] = cover
            self._kept += len(pairs) + 1
        return cover


class _Used:
    """Counts the disruptions of victims in one namespace, one after the other."""

    def __init__(self, namespace: _Namespace, first: _Cover) -> None:
        self._namespace = namespace
        self._first = first
        self._tightest = int(namespace.allowed[first.places].min())
        self._number = 0
        """Victims counted by the budgets of the first cover, until there is another cover."""
        self._used: Column | None = None

    def break_budgets(self, victim: PodInfo, cover: _Cover) -> bool:
        """Count the victim; True if a budget has no disruption left for it."""
        counted = self._namespace.already_disrupted.get(victim.pod.metadata.name)
        if self._used is None and cover is self._first and counted is None:
            self._number += 1
            return self._number > self._tightest
        allowed = self._namespace.allowed
        if self._used is None:
            self._used = np.zeros(len(allowed), np.int64)
            self._used[self._first.places] = self._number
        places = cover.places if counted is None else cover.places[~np.isin(cover.places, list(counted))]
        self._used[places] += 1
        return bool((self._used[places] > allowed[places]).any())


class _Uses:
    """Counts the disruptions of victims in all namespaces."""

    def __init__(self, namespaces: Mapping[str, _Namespace]) -> None:
        self._namespaces = namespaces
        self._used: dict[str, _Used] = {}
        self.covers: dict[int, frozenset[str]] = {}
        """The considered budgets, by the identity of the set."""

    def breaks(self, victim: PodInfo) -> bool:
        """Count the victim; True if a budget has no disruption left for it."""
        namespace, labels = self._namespaces.get(victim.namespace), victim.labels
        # No budget covers a pod without labels, not even one that requires a label's absence.
        if namespace is None or not labels:
            return False
        cover = namespace.cover(labels)
        if not cover.keys:
            return False
        self.covers[id(cover.keys)] = cover.keys
        used = self._used.get(victim.namespace)
        if used is None:
            used = self._used[victim.namespace] = _Used(namespace, cover)
        return used.break_budgets(victim, cover)


class Budgets:
    """The budgets of a store, always up to date."""

    def __init__(self, store: Store[PodDisruptionBudget]) -> None:
        self._store = store
        self._store_changes = store.change_reader()
        self._budgets: dict[str, _Budget] = {}
        self._namespaces: dict[str, _Namespace] = {}
        self.changes: Changes[str] = Changes()
        """Keys of the budgets that have changed; `ANY_PODS` if they cover other pods."""

    def split(self, victims: Sequence[PodInfo]) -> Split:
        """The victims whose eviction would violate a budget, and the others.

        Every victim uses up a disruption of each budget that covers it, so the order determines which victims
        violate it.
        """
        self.catch_up()
        if not self._budgets:
            return Split((), victims, _NO_BUDGETS)
        uses = _Uses(self._namespaces)
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for victim in victims:
            (violating if uses.breaks(victim) else others).append(victim)
        covers = list(uses.covers.values())
        return Split(violating, others, covers[0] if len(covers) == 1 else _NO_BUDGETS.union(*covers))

    def split_units(
        self, units: Sequence[Sequence[PodInfo]]
    ) -> tuple[Sequence[Sequence[PodInfo]], Sequence[Sequence[PodInfo]]]:
        """The same for pods that are only evicted together."""
        self.catch_up()
        uses = _Uses(self._namespaces)
        violating: list[Sequence[PodInfo]] = []
        others: list[Sequence[PodInfo]] = []
        for unit in units:
            # The first violation is enough; the pods after it are not counted.
            breaks = any(map(uses.breaks, unit))
            (violating if breaks else others).append(unit)
        return violating, others

    def catch_up(self) -> None:
        """Parse changed budgets."""
        changed = self._store_changes.read()
        for key in self._store.keys() | self._budgets.keys() if changed is None else changed:
            old = self._budgets.pop(key, None)
            present = self._store.get_by_key(key)
            new = None if present is None else _read(present)
            if new is not None:
                self._budgets[key] = new
            if old != new:
                namespace = key.partition("/")[0]
                budgets = self._namespaces.setdefault(namespace, _Namespace())
                budgets.change(key, old, new)
                if not len(budgets):
                    del self._namespaces[namespace]
                same_pods = old is not None and new is not None and old.selector == new.selector
                self.changes.note(key if same_pods else ANY_PODS)


def _read(budget: PodDisruptionBudget) -> _Budget | None:
    """The budget in the form used here; None if it protects no pod."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None  # upstream: an invalid selector protects no pod
    # An empty selector protects nothing either, unlike everywhere else in Kubernetes.
    if selector.empty or selector.matches_nothing:
        return None
    return _Budget(
        selector,
        budget.status.disruptions_allowed,
        frozenset(budget.status.disrupted_pods),
    )
