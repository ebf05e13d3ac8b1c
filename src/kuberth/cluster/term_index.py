"""Finds the terms that may match a pod by a label that they require, without evaluating all terms.

In: terms (or classes of pods) under the label values that they require (or have). Out: the few that can
match; the caller still has to evaluate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from kuberth.api.selectors import Operator, Selector

LabelPair = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")

UNDEMANDING: Final[LabelPair] = ("", "")
"""The key of terms that require no particular label value; no label has an empty key."""


def present(key: str) -> LabelPair:
    """Stands for any value of a label; no key begins like this."""
    return "!" + key, ""


class LabelIndex(Generic[K, V]):
    """Entries under label values."""

    __slots__ = ("_filed",)

    def __init__(self) -> None:
        self._filed: dict[LabelPair, dict[K, V]] = {}

    def file(self, key: K, value: V, pairs: Iterable[LabelPair]) -> None:
        for pair in pairs:
            self._filed.setdefault(pair, {})[key] = value

    def remove(self, key: K, pairs: Iterable[LabelPair]) -> None:
        for pair in pairs:
            entries = self._filed[pair]
            del entries[key]
            if not entries:
                del self._filed[pair]

    def entries(self) -> Iterator[tuple[K, V]]:
        """All entries; those under several values are repeated."""
        for entries in self._filed.values():
            yield from entries.items()

    def count(self, pairs: Iterable[LabelPair]) -> int:
        """The number of entries that `under` would yield."""
        filed = self._filed
        return sum(len(filed[pair]) for pair in pairs if pair in filed)

    def under(self, pairs: Iterable[LabelPair]) -> Iterator[tuple[K, V]]:
        for pair in pairs:
            entries = self._filed.get(pair)
            if entries is not None:
                yield from entries.items()


def demanded_labels(selectors: Iterable[Selector]) -> tuple[LabelPair, ...]:
    """Label values of which a pod must have one to match all `selectors`: as few as possible.

    Empty if no pod can match; just `UNDEMANDING` if the selectors only exclude.
    """
    fewest: tuple[LabelPair, ...] = (UNDEMANDING,)
    for selector in selectors:
        if selector.matches_nothing:
            return ()
        for requirement in selector.requirements:
            if requirement.meaning is Operator.IN:
                pairs = tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
                if not pairs:
                    return ()
                if fewest[0] is UNDEMANDING or len(pairs) < len(fewest):
                    fewest = pairs
    return fewest
