from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from kuberth.framework import SUCCESS, Code, PermitPlugin, PermitResult, ReservePlugin, Status
from kuberth.framework.running.reserving import MAX_PERMIT_SECONDS
from kuberth.testing import make_pod
from tests.unit.framework.harness import framework, plugin, state_of

POD = make_pod("p")


# Reserve


@pytest.mark.parametrize(
    "answer, code",
    [
        pytest.param(Status.unschedulable("taken"), Code.UNSCHEDULABLE, id="rejects"),
        pytest.param(Status.pending("soon"), Code.PENDING, id="pending"),
        pytest.param(Status.error("lost"), Code.ERROR, id="error"),
        pytest.param(ValueError("lost"), Code.ERROR, id="raises"),
    ],
)
def test_reserve_ends_at_the_first_failure(answer: Any, code: Code) -> None:
    log: list[str] = []
    made = framework(
        plugin("A", ReservePlugin, reserve=None, unreserve=None, log=log),
        plugin("B", ReservePlugin, reserve=answer, unreserve=None, log=log),
        plugin("C", ReservePlugin, reserve=None, unreserve=None, log=log),
    )
    status = made.runner.reserving.run_reserve(state_of(POD), POD, "n1")
    assert (status.code, status.plugin) == (code, "B")
    assert log == ["A.reserve", "B.reserve"]


def test_unreserve_goes_backwards_and_stops_for_no_one(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    made = framework(
        plugin("A", ReservePlugin, reserve=None, unreserve=None, log=log),
        plugin("B", ReservePlugin, reserve=None, unreserve=ValueError("stuck"), log=log),
        plugin("C", ReservePlugin, reserve=None, unreserve=None, log=log),
        reserve=["C", "B", "A"],
    )
    with caplog.at_level(logging.ERROR):
        made.runner.reserving.run_unreserve(state_of(POD), POD, "n1")
    assert log == ["A.unreserve", "B.unreserve", "C.unreserve"]
    assert "plugin 'B' failed at Unreserve" in caplog.text
    assert "stuck" in caplog.text


# Permit

WAIT = PermitResult.wait(5)


@pytest.mark.parametrize(
    "answers, asked, code, plugin_name, timeouts",
    [
        pytest.param([None, SUCCESS], "AB", Code.SUCCESS, "", {}, id="approve"),
        pytest.param([PermitResult(SUCCESS), None], "AB", Code.SUCCESS, "", {}, id="approve-by-a-result"),
        pytest.param([Status.unschedulable("no"), None], "A", Code.UNSCHEDULABLE, "A", {}, id="deny-ends"),
        pytest.param([WAIT, None], "AB", Code.WAIT, "", {"A": 5.0}, id="wait"),
        pytest.param([WAIT, PermitResult.wait(7)], "AB", Code.WAIT, "", {"A": 5.0, "B": 7.0}, id="two-wait"),
        pytest.param(
            [WAIT, Status.unschedulable("no")], "AB", Code.UNSCHEDULABLE, "B", {}, id="deny-beats-wait"
        ),
        pytest.param([WAIT, Status.error("x")], "AB", Code.ERROR, "B", {}, id="error-beats-wait"),
        pytest.param(
            [PermitResult(Status.unschedulable("no"), 5), None],
            "A",
            Code.UNSCHEDULABLE,
            "A",
            {},
            id="deny-by-a-result",
        ),
        pytest.param(
            [PermitResult.wait(MAX_PERMIT_SECONDS + 1), None], "AB", Code.WAIT, "", {"A": 900.0}, id="capped"
        ),
        pytest.param(
            [PermitResult.wait(float("inf")), None],
            "AB",
            Code.WAIT,
            "",
            {"A": 900.0},
            id="for-ever-is-capped",
        ),
        pytest.param([Status.wait(), None], "A", Code.ERROR, "A", {}, id="wait-without-a-limit"),
        pytest.param([PermitResult.wait(0), None], "AB", Code.WAIT, "", {"A": 0.0}, id="no-wait"),
        pytest.param([PermitResult.wait(-1), None], "A", Code.ERROR, "A", {}, id="a-negative-limit"),
        pytest.param([PermitResult.wait(float("nan")), None], "A", Code.ERROR, "A", {}, id="no-number"),
        pytest.param(
            [PermitResult(Status.wait(), cast(float, "5s")), None],
            "A",
            Code.ERROR,
            "A",
            {},
            id="a-text-for-a-limit",
        ),
    ],
)
def test_permit(
    answers: list[Any], asked: str, code: Code, plugin_name: str, timeouts: dict[str, float]
) -> None:
    log: list[str] = []
    made = framework(
        *(
            plugin(name, PermitPlugin, permit=answer, log=log)
            for name, answer in zip("AB", answers, strict=True)
        )
    )
    status, found = made.runner.reserving.run_permit(state_of(POD), POD, "n1")
    assert log == [f"{name}.permit" for name in asked]
    assert (status.code, status.plugin) == (code, plugin_name)
    assert found == timeouts


def test_a_wait_without_a_limit_is_an_error_that_says_what_to_answer() -> None:
    made = framework(plugin("A", PermitPlugin, permit=Status.wait("for a quota")))
    status, _timeouts = made.runner.reserving.run_permit(state_of(POD), POD, "n1")
    assert status.message == (
        "plugin 'A' at Permit: returned <Wait: for a quota> where PermitResult.wait(seconds) is expected"
    )


@pytest.mark.parametrize(
    "interface, method, expected",
    [
        (PermitPlugin, "permit", "a PermitResult, a Status or None"),
        (ReservePlugin, "reserve", "a Status or None"),
    ],
)
def test_a_wrong_type_names_all_that_are_allowed(interface: type[Any], method: str, expected: str) -> None:
    rest = {"unreserve": None} if interface is ReservePlugin else {}
    methods: dict[str, Any] = {method: "yes", **rest}
    made = framework(plugin("A", interface, **methods))
    if interface is PermitPlugin:
        status, _timeouts = made.runner.reserving.run_permit(state_of(POD), POD, "n1")
    else:
        status = made.runner.reserving.run_reserve(state_of(POD), POD, "n1")
    assert status.message.endswith(f"returned 'yes' where {expected} is expected")


def test_the_longest_wait_is_fifteen_minutes() -> None:
    assert MAX_PERMIT_SECONDS == 15 * 60
