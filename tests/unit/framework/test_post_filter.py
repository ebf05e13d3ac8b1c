from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework import Code, Diagnosis, PostFilterPlugin, PostFilterResult, Status
from kuberth.testing import make_pod
from tests.unit.framework.harness import framework, plugin, state_of

POD = make_pod("p")
N1, N2 = PostFilterResult("n1"), PostFilterResult("n2")
NO, NEVER = Status.unschedulable("no"), Status.unresolvable("never")


@pytest.mark.parametrize(
    "answers, asked, result, code, reasons, plugin_name",
    [
        pytest.param([(N1, None), (N2, None)], "A", N1, Code.SUCCESS, (), "", id="success-ends"),
        pytest.param(
            [(None, NO), (N2, None)], "AB", N2, Code.SUCCESS, (), "", id="a-rejection-lets-the-next-try"
        ),
        pytest.param(
            [(None, NEVER), (N2, None)],
            "A",
            None,
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            ("never",),
            "A",
            id="unresolvable-ends",
        ),
        pytest.param(
            [(N1, NEVER), (N2, None)],
            "A",
            N1,
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            ("never",),
            "A",
            id="unresolvable-with-a-result",
        ),
        pytest.param(
            [(None, NO), (None, NO)], "AB", None, Code.UNSCHEDULABLE, ("no", "no"), "A", id="all-reject"
        ),
        pytest.param(
            [(N1, NO), (None, NO)], "AB", N1, Code.UNSCHEDULABLE, ("no", "no"), "A", id="a-result-is-kept"
        ),
        pytest.param(
            [(N1, NO), (N2, NO)],
            "AB",
            N2,
            Code.UNSCHEDULABLE,
            ("no", "no"),
            "A",
            id="the-last-result-is-kept",
        ),
        pytest.param(
            [(None, Status.pending("soon")), (N2, None)], "AB", N2, Code.SUCCESS, (), "", id="pending-goes-on"
        ),
        pytest.param(
            [(N1, Status.error("x")), (N2, None)],
            "A",
            None,
            Code.ERROR,
            ("plugin 'A' at PostFilter: x",),
            "A",
            id="error-ends",
        ),
        pytest.param(
            [(None, NO), ValueError("x")],
            "AB",
            None,
            Code.ERROR,
            ("plugin 'B' at PostFilter: ValueError: x",),
            "B",
            id="exception-ends",
        ),
        pytest.param([NO, (N2, None)], "AB", N2, Code.SUCCESS, (), "", id="a-bare-status"),
    ],
)
def test_order_and_end(
    answers: list[Any],
    asked: str,
    result: PostFilterResult | None,
    code: Code,
    reasons: tuple[str, ...],
    plugin_name: str,
) -> None:
    log: list[str] = []
    made = framework(
        *(
            plugin(name, PostFilterPlugin, post_filter=answer, log=log)
            for name, answer in zip("AB", answers, strict=True)
        )
    )
    given, status = made.runner.post_filtering.run(state_of(POD), POD, Diagnosis())
    assert log == [f"{name}.post_filter" for name in asked]
    assert given == result
    assert (status.code, status.reasons, status.plugin) == (code, reasons, plugin_name)


def test_without_plugins_the_pod_stays_unschedulable() -> None:
    result, status = framework().runner.post_filtering.run(state_of(POD), POD, Diagnosis())
    assert (result, status) == (None, Status(Code.UNSCHEDULABLE))
