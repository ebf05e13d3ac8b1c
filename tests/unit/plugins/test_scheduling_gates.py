from __future__ import annotations

import pytest

from kuberth.framework.status import Code, Status
from kuberth.plugins.scheduling_gates.plugin import SchedulingGates
from kuberth.testing.factories import make_pod


@pytest.mark.parametrize(
    ("gates", "answer"),
    [
        pytest.param([], None, id="none"),
        pytest.param(["a"], "waiting for scheduling gates: [a]", id="one"),
        pytest.param(["b.io/x", "a"], "waiting for scheduling gates: [b.io/x a]", id="two-in-their-order"),
    ],
)
def test_gates_cannot_be_resolved_by_preemption(gates: list[str], answer: str | None) -> None:
    expected = None if answer is None else Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, answer)
    assert SchedulingGates().pre_enqueue(make_pod("p", gates=gates)) == expected
