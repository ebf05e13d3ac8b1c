"""Codes of verdicts, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.framework.verdict import counted, distinct


@pytest.mark.parametrize("length", [0, 1, 3, 256, 257, 2000])
@pytest.mark.parametrize("most", [1, 5, 2**62])
def test_few_and_many_codes_are_counted_alike(length: int, most: int) -> None:
    codes = np.random.default_rng(length).integers(0, most, length, endpoint=True)
    values, numbers = np.unique(codes, return_counts=True)
    assert distinct(codes) == values.tolist()
    assert counted(codes) == list(zip(values.tolist(), numbers.tolist(), strict=True))


@given(
    st.lists(st.integers(-3, 9) | st.integers(0, 2**40), min_size=0, max_size=20),
    st.integers(1, 400),
    st.sampled_from([np.int64, np.int32, np.uint16, np.bool_]),
)
def test_codes_are_counted_alike_however_many_and_however_large(
    values: list[int], times: int, kind: type[np.generic]
) -> None:
    codes = np.array(values * times, np.int64).astype(kind)
    expected = sorted(Counter(codes.tolist()).items())
    assert counted(codes) == expected
    assert distinct(codes) == [code for code, _number in expected]
