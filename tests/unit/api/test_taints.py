from __future__ import annotations

import pytest

from kuberth.api.core import Taint, Toleration
from kuberth.api.taints import find_untolerated, toleration_tolerates

TAINT = Taint(key="k", value="5", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(key="k", value="5"), True),
        (Toleration(key="k", operator="Equal", value="5"), True),
        (Toleration(key="k", operator="Equal", value="6"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(value="5"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="k", operator="Like", value="5"), False),
    ],
    ids=str,
)
def test_tolerations(toleration: Toleration, tolerates: bool) -> None:
    assert toleration_tolerates(toleration, TAINT) is tolerates


@pytest.mark.parametrize(
    ("operator", "bound", "taint", "tolerates"),
    [
        ("Gt", "4", "5", True),
        ("Gt", "5", "5", False),
        ("Lt", "6", "5", True),
        ("Lt", "5", "5", False),
        ("Gt", "-7", "-5", True),
        ("Gt", "04", "5", False),
        ("Gt", "4", "05", False),
        ("Gt", "+4", "5", False),
        ("Lt", "-0", "-5", False),
        ("Gt", "4", "9223372036854775808", False),
        ("Gt", "", "5", False),
    ],
)
def test_comparisons_need_their_gate(operator: str, bound: str, taint: str, tolerates: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=bound)
    tainted = Taint(key="k", value=taint, effect="NoSchedule")
    assert toleration_tolerates(toleration, tainted, comparison_operators=True) is tolerates
    assert not toleration_tolerates(toleration, tainted)


def test_the_first_untolerated_taint_of_the_effects_is_found() -> None:
    soft = Taint(key="s", effect="PreferNoSchedule")
    hard = Taint(key="h", effect="NoExecute")
    assert find_untolerated([soft, TAINT, hard], [Toleration(key="k", operator="Exists")]) == hard
    assert find_untolerated([soft], []) is None
    assert find_untolerated([soft], [], {"PreferNoSchedule"}) == soft
    above = [Toleration(key="k", operator="Gt", value="1")]
    assert find_untolerated([TAINT], above) == TAINT
    assert find_untolerated([TAINT], above, comparison_operators=True) is None
