"""Scores: their range, the usual normalization, and lines through points of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.config.plugin_args import MAX_CUSTOM_SCORE, UtilizationShapePoint
from kuberth.config.types import MAX_NODE_SCORE, MIN_NODE_SCORE

__all__ = ["FULL", "MAX_NODE_SCORE", "MIN_NODE_SCORE", "line_scores", "normalized"]

FULL: Final = 100
"""The utilization, in percent, of something without free resources."""


def normalized(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale scores so that the highest becomes 100; with `reverse`, the highest becomes 0 and zero becomes
    100."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def line_scores(shape: Sequence[UtilizationShapePoint]) -> list[int]:
    """The score of every utilization from 0 to 100 percent, on a line through the points of `shape`."""
    return [_on_line(shape, utilisation) for utilisation in range(FULL + 1)]


def _on_line(shape: Sequence[UtilizationShapePoint], utilisation: int) -> int:
    """The truncated score of a utilization; beyond the ends of the line, the first or last point counts."""
    stretch = MAX_NODE_SCORE // MAX_CUSTOM_SCORE
    before: UtilizationShapePoint | None = None
    for point in shape:
        if utilisation <= point.utilization:
            if before is None:
                return point.score * stretch
            rise = (point.score - before.score) * stretch * (utilisation - before.utilization)
            run = point.utilization - before.utilization
            climbed = rise // run if rise >= 0 else -(-rise // run)
            return before.score * stretch + climbed
        before = point
    return before.score * stretch if before is not None else 0
