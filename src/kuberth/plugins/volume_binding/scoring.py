"""Scores nodes by how well a pod's volumes use their storage (feature gate StorageCapacityScoring).

In: the findings for feasible nodes. Out: a score per node: for every storage class, the share of the capacity
that the claims request, mapped with the shape of the plugin's arguments, and the mean of these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.quantity import value
from kuberth.config.plugin_args import UtilizationShapePoint
from kuberth.framework.extension_points import Scores
from kuberth.framework.scores import FULL, line_scores
from kuberth.plugins.volume_binding.finding import Findings, VolumeChoice
from kuberth.plugins.volume_binding.provisioning import total_bytes
from kuberth.plugins.volume_binding.reach import NONE
from kuberth.plugins.volume_binding.volumes import VolumesOf

_ABSENT: Final = -1

Use = tuple[str, int, int]
"""Of one storage class: its name, requested bytes, available bytes."""


class CapacityScorer:
    """Scores utilization along a line through the points of `shape`."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._of_utilisation = line_scores(shape)

    def scores(self, findings: Findings, volumes: VolumesOf) -> Scores:
        """Distinct capacities are few, so every distinct combination is scored once."""
        matched = [_volume_sizes(choice, volumes) for choice in findings.choices]
        provided = [_capacities(choice) for choice in findings.choices]
        columns = [column for columns, _uses in (*matched, *provided) for column in columns]
        if not columns:
            return np.zeros(len(findings.codes), np.int64)
        distinct, combination = np.unique(np.array(columns), axis=1, return_inverse=True)
        scores = [self._score(list(values), matched, provided) for values in distinct.T.tolist()]
        return np.array(scores, np.int64)[combination.reshape(-1)]

    def _score(self, values: list[int], matched: Sequence[_Columns], provided: Sequence[_Columns]) -> int:
        used = [use for columns, of in matched if (use := of(*_shift(values, len(columns)))) is not None]
        made = [use for columns, of in provided if (use := of(*_shift(values, len(columns)))) is not None]
        by_class: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        if used:
            for name, requested, capacity in used:
                before = by_class[name]
                by_class[name] = (before[0] + requested, before[1] + capacity)
        else:
            for name, requested, capacity in made:
                # All volumes of a class are provisioned from the same capacity.
                by_class[name] = (by_class[name][0] + requested, capacity)
        if not by_class:
            return 0
        total = sum(self._of_class(requested, capacity) for requested, capacity in by_class.values())
        return math.floor(total / len(by_class) + 0.5)

    def _of_class(self, requested: int, capacity: int) -> int:
        if capacity == 0 or requested > capacity:
            return self._of_utilisation[FULL]
        return self._of_utilisation[requested * FULL // capacity]


_Columns = tuple[Sequence[NDArray[np.int64]], Callable[..., Use | None]]
"""Columns over the nodes, and the meaning of a combination of their values."""


def _shift(values: list[int], number: int) -> list[int]:
    taken, values[:number] = values[:number], []
    return taken


def _volume_sizes(choice: VolumeChoice, volumes: VolumesOf) -> _Columns:
    of_class, requested = volumes[choice.claim.class_name], choice.claim.size_bytes
    used, position = np.unique(choice.volumes, return_inverse=True)
    chosen = [None if index == NONE else of_class[index].volume for index in used.tolist()]
    names = sorted({volume.spec.storage_class_name for volume in chosen if volume is not None})
    sizes = [_ABSENT if one is None else value(one.spec.capacity.get("storage", 0)) for one in chosen]
    classes = [_ABSENT if one is None else names.index(one.spec.storage_class_name) for one in chosen]

    def use(size: int, class_id: int) -> Use | None:
        return None if class_id == _ABSENT else (names[class_id], requested, size)

    return (np.array(sizes, np.int64)[position], np.array(classes, np.int64)[position]), use


def _capacities(choice: VolumeChoice) -> _Columns:
    claim, sufficient = choice.claim, choice.sufficient
    if sufficient is None:
        return (), lambda: None
    totals = np.array([*(total_bytes(known.capacity) for known in sufficient.capacities), _ABSENT])
    found = totals[np.minimum(sufficient.choice, len(totals) - 1)]
    name = claim.claim.spec.storage_class_name or claim.class_name

    def use(size: int) -> Use | None:
        return None if size == _ABSENT else (name, claim.size_bytes, size)

    return (np.where(choice.needed, found, _ABSENT),), use
