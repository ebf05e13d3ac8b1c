"""Scores: their range, and the usual normalization."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kuberth.config.types import MAX_NODE_SCORE, MIN_NODE_SCORE

__all__ = ["MAX_NODE_SCORE", "MIN_NODE_SCORE", "normalized"]


def normalized(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale scores so that the highest becomes 100; with `reverse`, the highest becomes 0 and zero becomes
    100."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled
