"""A bounded cache of the results that plugins compile from parts of pods.

In: a part of a pod (terms, constraints) and the compiled result. Out: the result, as long as it is in use. A
pod can have thousands of terms, and queueing hints read them at every change of a node or of another pod.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")

MAX_LENGTH: Final = 131_072
"""The maximum number of requirements and values in a cache, about 70 MiB; beyond it, the least recently used
results are dropped."""


class CompiledCache(Generic[V]):
    """Compiled results by the identity of parts, which the versions of a pod and replicas share.

    Not thread-safe: every plugin has its own cache.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, Hashable], tuple[object, V, int]] = OrderedDict()
        """The values refer to the parts, so that no other object gets the same identity."""
        self._length = 0

    def get(self, part: object, context: Hashable = None) -> V | None:
        """The result for a part; `context` contains everything else on which it depends."""
        key = id(part), context
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[1]

    def put(self, part: object, context: Hashable, result: V, *, length: int) -> None:
        """Add a result that is not in the cache; `length` is the number of its requirements and values."""
        self._kept[id(part), context] = part, result, length
        self._length += length
        while self._length > MAX_LENGTH:
            self._length -= self._kept.popitem(last=False)[1][2]
