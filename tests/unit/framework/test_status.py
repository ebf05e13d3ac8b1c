from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from kuberth.framework import SKIP, SUCCESS, Code, Status, Verdict


@pytest.mark.parametrize(
    "code, label",
    [
        (Code.SUCCESS, "Success"),
        (Code.ERROR, "Error"),
        (Code.UNSCHEDULABLE, "Unschedulable"),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "UnschedulableAndUnresolvable"),
        (Code.WAIT, "Wait"),
        (Code.SKIP, "Skip"),
        (Code.PENDING, "Pending"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_codes_are_called_as_upstream_calls_them(code: Code, label: str) -> None:
    assert code.label == label


def test_all_codes_have_a_label() -> None:
    assert len({code.label for code in Code}) == len(Code)


@pytest.mark.parametrize(
    "status, rejected",
    [
        pytest.param(SUCCESS, False, id="success"),
        pytest.param(SKIP, False, id="skip"),
        pytest.param(Status.wait(), False, id="wait"),
        pytest.param(Status.error("x"), False, id="error"),
        pytest.param(Status.unschedulable("x"), True, id="unschedulable"),
        pytest.param(Status.unresolvable("x"), True, id="unresolvable"),
        pytest.param(Status.pending("x"), True, id="pending"),
    ],
)
def test_a_rejection_is_a_judgement_about_the_pod(status: Status, rejected: bool) -> None:
    assert status.is_rejected is rejected


def test_reasons_make_the_message() -> None:
    assert Status.unschedulable("one", "two").message == "one, two"
    assert SUCCESS.message == ""


def test_attribution_keeps_everything_else() -> None:
    cause = ValueError("x")
    status = Status(Code.UNSCHEDULABLE, "why", cause=cause).by("P")
    assert (status.code, status.reasons, status.plugin, status.cause) == (
        Code.UNSCHEDULABLE,
        ("why",),
        "P",
        cause,
    )
    assert status.by("P") is status


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    assert Status.error(KeyError()).message == "KeyError"
    assert Status.error(KeyError()).code is Code.ERROR


def test_statuses_compare_by_value() -> None:
    assert Status.unschedulable("a") == Status.unschedulable("a")
    assert len({Status.unschedulable("a"), Status.unschedulable("a")}) == 1
    assert Status.unschedulable("a") != Status.unschedulable("b")
    assert Status.unschedulable("a") != Status.unresolvable("a")
    assert Status.unschedulable("a") != Status.unschedulable("a").by("P")
    assert repr(Status.unschedulable("a").by("P")) == "<Unschedulable by P: a>"


@pytest.mark.parametrize(
    "arguments, message",
    [
        pytest.param((2, "x"), "the first argument of a Status is a Code, not 2", id="a-number-for-the-code"),
        pytest.param(
            ("Unschedulable",), "the first argument of a Status is a Code", id="a-text-for-the-code"
        ),
        pytest.param((Code.UNSCHEDULABLE, ["x"]), "is a string, not \\['x'\\]", id="a-list-of-reasons"),
        pytest.param((Code.UNSCHEDULABLE, None), "is a string, not None", id="no-reason"),
    ],
)
def test_a_status_of_nonsense_fails_where_it_is_made(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Status(*cast("tuple[Any, Any]", arguments))


def test_verdicts_give_the_status_of_each_code() -> None:
    why = Status.unschedulable("full")
    rejecting = Verdict.rejecting(np.array([True, False]), why)
    assert rejecting.codes.tolist() == [1, 0]
    assert rejecting.status(1) == why
    choosing = Verdict.choosing(np.array([2, 0, 1]), why, Status.unresolvable("never"))
    assert [choosing.status(code) for code in (1, 2)] == [why, Status.unresolvable("never")]


@pytest.mark.parametrize("status, looked_at", [(Status.unschedulable("x"), False), (Status.error("x"), True)])
def test_a_verdict_knows_whether_it_may_fail(status: Status, looked_at: bool) -> None:
    assert Verdict.rejecting(np.array([True]), status).may_fail is looked_at
    assert Verdict.choosing(np.array([1]), Status.pending("y"), status).may_fail is looked_at
