"""The labels of pods that selectors use: pods that agree in these are equal for all selectors.

In: the selectors of pod affinity terms, spread constraints, services and controllers, as they become known.
Out: for a pod, those of its labels that some selector uses. Pods of a StatefulSet or an indexed Job each have
a distinct label that hardly ever matters; without it, they share a plan and a rejection. A selector is never
forgotten, so the used labels only grow. Memory is bounded: if selectors name too many values of a label,
every value counts, and with too many labels all labels count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from operator import attrgetter
from typing import Any, Final, TypeVar

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import Operator, Requirement
from kuberth.changes import ChangeReader, Changes
from kuberth.cluster.pod_info import PodInfo

K = TypeVar("K")
SeenLabel = tuple[str, str] | tuple[str]
"""A label and a value; without a value, selectors only test whether the label exists."""

MAX_VALUES: Final = 1024
"""The maximum number of values of a label that selectors may name; beyond it, every value counts."""
MAX_SELECTED: Final = 65_536
"""The maximum number of labels and values that selectors may name; beyond it, all labels of a pod count."""
MAX_KNOWN: Final = 4096
"""For how many sets of labels the used part is cached."""
_PARTS: Final = attrgetter("key", "operator", "values")
_NO_VALUES: Final = frozenset[str]()
MAX_UNSEEN: Final = 262_144
"""The maximum number of pod labels that no selector has named yet; beyond it, they are collected again."""


class SelectedLabels:
    """The labels that all registered selectors name."""

    def __init__(self) -> None:
        self.version = 0
        """Grows when a new selector uses a label that `of` omitted for some pod."""
        self._values: dict[str, set[str] | None] = {}
        """By label, the values that In and NotIn name; all other values are equivalent to no label. None:
        every value counts."""
        self._keys: set[str] = set()
        """Labels that Exists or DoesNotExist name."""
        self._unseen_pairs: set[tuple[str, str]] = set()
        self._unseen_keys: set[str] = set()
        self._known: dict[frozenset[tuple[str, str]], Sequence[SeenLabel]] = {}
        """Results of `of`, by all labels of a pod."""
        self._size = 0
        self._all_count = False
        self._followed: dict[Changes[Any], tuple[ChangeReader[Any], Callable[[Any], None]]] = {}
        self._followed_version = 0

    def follow(self, changes: Changes[K], note: Callable[[frozenset[K] | None], None]) -> None:
        """Call `note` with every change (None: anything) before labels are read again."""
        self._followed[changes] = changes.reader(), note
        self._followed_version = -1

    def refresh(self) -> None:
        """Register the selectors of all followed objects, so that `version` is current."""
        version = 0
        for changes in self._followed:
            version += changes.version
        if version != self._followed_version:
            self._followed_version = version
            for reader, note in self._followed.values():
                if not reader.is_current:
                    note(reader.read())

    def of(self, info: PodInfo) -> Sequence[SeenLabel]:
        """The labels of the pod that selectors use, including those of its own terms and constraints."""
        spec = info.pod.spec
        if spec.affinity is not None or spec.topology_spread_constraints:
            self._register_own(info)
        labels = info.pod_class.labels
        seen = self._known.get(labels)
        if seen is None:
            if len(self._unseen_pairs) > MAX_UNSEEN:
                self._start_again()
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            seen = self._known[labels] = sorted(labels) if self._all_count else self._seen_of(labels)
        return seen

    def _seen_of(self, labels: Iterable[tuple[str, str]]) -> Sequence[SeenLabel]:
        named, keys = self._values, self._keys
        seen: list[SeenLabel] = []
        for pair in labels:
            key, value = pair
            values = named.get(key, _NO_VALUES)
            if values is None or value in values:
                seen.append(pair)
                continue
            self._unseen_pairs.add(pair)
            if key in keys:
                seen.append((key,))
            else:
                self._unseen_keys.add(key)
        seen.sort()
        return seen

    def register_terms(self, info: PodInfo) -> None:
        """Register the pod affinity terms of a pod that other pods may encounter."""
        for term in (*info.required_affinity, *info.required_anti_affinity):
            self.note(term.pods.selector.requirements)
        for weighted in info.preferred_terms:
            self.note(weighted.term.pods.selector.requirements)

    def register_selector(self, selector: LabelSelector | None) -> None:
        """Register a selector. Parts that cannot be parsed select nothing."""
        if selector is None or self._all_count:
            return
        is_new = False
        for key, value in selector.match_labels.items():
            named = self._values.get(key, _NO_VALUES)
            if named is not None and value not in named:
                is_new = self._name(key, {value}) or is_new
        for key, operator, values in map(_PARTS, selector.match_expressions):
            if operator in ("In", "NotIn"):
                is_new = self._name(key, frozenset(values)) or is_new
            elif operator in ("Exists", "DoesNotExist"):
                is_new = self._name_key(key) or is_new
        self._finish(is_new)

    def note(self, requirements: Iterable[Requirement]) -> None:
        """Register requirements that may be evaluated for any pod."""
        if self._all_count:
            return
        is_new = False
        for requirement in requirements:
            key, meaning = requirement.key, requirement.meaning
            if meaning is Operator.IN or meaning is Operator.NOT_IN:
                named = self._values.get(key, _NO_VALUES)
                if named is not None and not requirement.value_set <= named:
                    is_new = self._name(key, requirement.value_set) or is_new
            elif meaning is Operator.EXISTS or meaning is Operator.DOES_NOT_EXIST:
                is_new = self._name_key(key) or is_new
            else:
                is_new = self._name(key, None) or is_new
        self._finish(is_new)

    def _finish(self, is_new: bool) -> None:
        if self._size > MAX_SELECTED:
            self._all_count = is_new = True
            self._values.clear()
            self._keys.clear()
        if is_new:
            self._start_again()

    def _name_key(self, key: str) -> bool:
        """Register that the presence of a label counts.

        Returns whether some pod has the label and it was omitted.
        """
        if key in self._keys:
            return False
        self._keys.add(key)
        self._known.clear()
        self._size += 1
        return key in self._unseen_keys

    def _name(self, key: str, values: Set[str] | None) -> bool:
        """Register values of a label; None: all.

        Returns whether some pod has one that was omitted.
        """
        if key not in self._values:
            self._size += 1
        named = self._values.setdefault(key, set())
        if named is None or (values is not None and values <= named):
            return False
        self._known.clear()
        if values is None or len(named) + len(values) > MAX_VALUES:
            self._values[key] = None
            self._size -= len(named)
            return any(key == unseen for unseen, _value in self._unseen_pairs)
        new = values - named
        named |= new
        self._size += len(new)
        return any((key, value) in self._unseen_pairs for value in new)

    def _register_own(self, info: PodInfo) -> None:
        if self._all_count:
            return
        spec = info.pod.spec
        if spec.affinity is not None:
            self.register_terms(info)
        for constraint in spec.topology_spread_constraints:
            self.register_selector(constraint.label_selector)
            # These select the pods that have the same value as this one.
            for key in constraint.match_label_keys:
                if (value := info.labels.get(key)) is not None:
                    self._finish(self._name(key, {value}))

    def _start_again(self) -> None:
        self.version += 1
        self._known.clear()
        self._unseen_pairs.clear()
        self._unseen_keys.clear()
