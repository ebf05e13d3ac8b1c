"""Which terms may speak of which pods, found by a label that the term demands, without asking them all.

In: terms (or classes of pods) under the label values they demand (or have). Out: the few that can match;
whether they do is still to be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from kuberth.api.selectors import Operator, Selector

LabelPair = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")

_FEW_VALUES: Final = 8
UNDEMANDING: Final[LabelPair] = ("", "")
"""Where terms are filed that demand no particular label value; no label has an empty key."""


def _present(key: str) -> LabelPair:
    """Stands for a label that is there, whatever its value; no key begins so."""
    return "!" + key, ""


def pairs_of(labels: Mapping[str, str]) -> Iterator[LabelPair]:
    """All that labels can be filed under by `excluded_labels`."""
    for key, value in labels.items():
        yield key, value
        yield _present(key)


def excluded_labels(selector: Selector) -> tuple[LabelPair, ...] | None:
    """What labels have if the selector rejects them; None: it asks for more than the absence of labels.

    Labels that have it may be accepted nevertheless: of many values only the key is given, so that a selector
    with thousands of them takes no more memory here.
    """
    if selector.matches_nothing:
        return None
    pairs: dict[LabelPair, None] = {}
    for requirement in selector.requirements:
        if requirement.meaning is Operator.NOT_IN and len(requirement.values) <= _FEW_VALUES:
            pairs.update(((requirement.key, value), None) for value in requirement.values)
        elif requirement.meaning in (Operator.NOT_IN, Operator.DOES_NOT_EXIST):
            pairs[_present(requirement.key)] = None
        else:
            return None
    return tuple(pairs)


class LabelIndex(Generic[K, V]):
    """Entries filed under label values."""

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

    def under(self, pairs: Iterable[LabelPair]) -> Iterator[tuple[K, V]]:
        for pair in pairs:
            entries = self._filed.get(pair)
            if entries is not None:
                yield from entries.items()


def demanded_labels(selectors: Iterable[Selector]) -> tuple[LabelPair, ...]:
    """Label values of which a pod must have one if all `selectors` are to accept it: as few as possible.

    None at all if no pod can be accepted, just `UNDEMANDING` if the selectors only exclude.
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
