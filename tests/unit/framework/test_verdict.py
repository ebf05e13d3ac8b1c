"""Codes of verdicts, counted."""

from __future__ import annotations

import numpy as np
import pytest

from kuberth.framework.verdict import counted, distinct


@pytest.mark.parametrize("length", [0, 1, 3, 256, 257, 2000])
@pytest.mark.parametrize("most", [1, 5, 2**62])
def test_few_and_many_codes_are_counted_alike(length: int, most: int) -> None:
    codes = np.random.default_rng(length).integers(0, most, length, endpoint=True)
    values, numbers = np.unique(codes, return_counts=True)
    assert distinct(codes) == values.tolist()
    assert counted(codes) == list(zip(values.tolist(), numbers.tolist(), strict=True))
