from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kuberth.framework import SKIP, BindPlugin, Code, PostBindPlugin, PreBindPlugin, Status
from kuberth.testing import make_pod, run_in_virtual_time
from tests.unit.framework.harness import Framework, framework, plugin, state_of

POD = make_pod("p")


def later(answer: Any) -> Callable[..., Awaitable[Any]]:
    """The answer as an `async def` gives it."""

    async def method(*_: object) -> Any:
        await asyncio.sleep(1)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return method


def at_once(answer: Any) -> Any:
    return answer


FORMS = pytest.mark.parametrize("form", [at_once, later], ids=["sync", "async"])


def pre_bound(made: Framework, state: Any = None) -> Status:
    return run_in_virtual_time(
        lambda: made.runner.binding.run_pre_bind(state_of(POD) if state is None else state, POD, "n1")
    )


def bound(made: Framework) -> Status:
    return run_in_virtual_time(lambda: made.runner.binding.run_bind(state_of(POD), POD, "n1"))


# PreBind


@FORMS
@pytest.mark.parametrize(
    "answer, code, message",
    [
        pytest.param(None, Code.SUCCESS, "", id="done"),
        pytest.param(Status.error("no disk"), Code.ERROR, "plugin 'B' at PreBind: no disk", id="error"),
        pytest.param(
            ValueError("no disk"), Code.ERROR, "plugin 'B' at PreBind: ValueError: no disk", id="raises"
        ),
        pytest.param(TimeoutError(), Code.ERROR, "plugin 'B' at PreBind: TimeoutError", id="times-out"),
        pytest.param(Status.unschedulable("no disk"), Code.UNSCHEDULABLE, "no disk", id="rejects"),
        pytest.param(Status.pending("soon"), Code.PENDING, "soon", id="pending"),
        pytest.param(
            SKIP, Code.ERROR, "plugin 'B' at PreBind: returned 'Skip' where a Status with code", id="skips"
        ),
        pytest.param("ok", Code.ERROR, "plugin 'B' at PreBind: returned 'ok' where a Status", id="nonsense"),
    ],
)
def test_pre_bind_ends_at_the_first_failure(form: Any, answer: Any, code: Code, message: str) -> None:
    log: list[str] = []
    made = framework(
        plugin("A", PreBindPlugin, pre_bind=form(None), log=log),
        plugin("B", PreBindPlugin, pre_bind=form(answer), log=log),
        plugin("C", PreBindPlugin, pre_bind=form(None), log=log),
    )
    status = pre_bound(made)
    assert status.code is code
    assert status.message.startswith(message)
    assert ("C.pre_bind" in log) is (code is Code.SUCCESS)
    assert log[:2] == ["A.pre_bind", "B.pre_bind"]


def test_a_cancellation_inside_a_plugin_is_its_failure() -> None:
    made = framework(plugin("A", PreBindPlugin, pre_bind=later(asyncio.CancelledError())))
    status = pre_bound(made)
    assert status.message == "plugin 'A' at PreBind: CancelledError"


def test_a_cancelled_binding_cycle_is_cancelled() -> None:
    async def main() -> None:
        made = framework(plugin("A", PreBindPlugin, pre_bind=later(None)))
        task = asyncio.ensure_future(made.runner.binding.run_pre_bind(state_of(POD), POD, "n1"))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in_virtual_time(main)


@pytest.mark.parametrize(
    "answers, code, skipped",
    [
        pytest.param([], Code.SKIP, "", id="no-plugins"),
        pytest.param([SKIP, SKIP], Code.SKIP, "AB", id="nothing-to-do"),
        pytest.param([SKIP, None], Code.SUCCESS, "A", id="one-has-something-to-do"),
        pytest.param([None, SKIP], Code.SUCCESS, "B", id="any-plugin"),
        pytest.param([Status(Code.SKIP, "no volumes"), None], Code.SUCCESS, "A", id="a-skip-may-say-why"),
        pytest.param([Status.error("x"), None], Code.ERROR, "", id="error"),
        pytest.param([SKIP, ValueError("x")], Code.ERROR, "A", id="raises"),
        pytest.param([Status.unschedulable("x")], Code.ERROR, "", id="no-place-for-a-rejection"),
        pytest.param(["x"], Code.ERROR, "", id="nonsense"),
    ],
)
def test_a_look_ahead_spares_pre_bind(answers: list[Any], code: Code, skipped: str) -> None:
    log: list[str] = []
    plugins = [
        plugin(name, PreBindPlugin, pre_bind=None, pre_bind_pre_flight=answer, log=log)
        for name, answer in zip("AB", answers, strict=False)
    ]
    made = framework(*plugins)
    state = state_of(POD)
    status = made.runner.binding.run_pre_bind_pre_flights(state, POD, "n1")
    assert status.code is code
    if code is Code.ERROR:
        assert " at PreBindPreFlight: " in status.message
        return
    log.clear()
    assert pre_bound(made, state).is_success
    assert log == [f"{each.name}.pre_bind" for each in plugins if each.name not in skipped]


def test_without_a_look_ahead_everything_runs() -> None:
    log: list[str] = []
    made = framework(plugin("A", PreBindPlugin, pre_bind=None, log=log))
    assert made.runner.binding.run_pre_bind_pre_flights(state_of(POD), POD, "n1").is_success
    assert pre_bound(made).is_success
    assert log == ["A.pre_bind"]


# Bind


@FORMS
@pytest.mark.parametrize(
    "answers, asked, code",
    [
        pytest.param([None, None], "A", Code.SUCCESS, id="the-first-takes-it"),
        pytest.param([SKIP, None], "AB", Code.SUCCESS, id="the-second-takes-it"),
        pytest.param([SKIP, SKIP], "AB", Code.SKIP, id="no-one-takes-it"),
        pytest.param([Status.error("x"), None], "A", Code.ERROR, id="error-ends"),
        pytest.param([ValueError("x"), None], "A", Code.ERROR, id="exception-ends"),
        pytest.param([Status.unschedulable("x"), None], "A", Code.UNSCHEDULABLE, id="rejection-ends"),
        pytest.param([SKIP, 5], "AB", Code.ERROR, id="nonsense"),
    ],
)
def test_bind_plugins_are_asked_until_one_takes_the_pod(
    form: Any, answers: list[Any], asked: str, code: Code
) -> None:
    log: list[str] = []
    made = framework(
        *(
            plugin(name, BindPlugin, bind=form(answer), log=log)
            for name, answer in zip("AB", answers, strict=True)
        )
    )
    status = bound(made)
    assert status.code is code
    assert log == [f"{name}.bind" for name in asked]
    if code is Code.ERROR:
        assert status.message.startswith(f"plugin {asked[-1]!r} at Bind: ")


# PostBind


def test_post_bind_informs_everyone_and_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    made = framework(
        plugin("A", PostBindPlugin, post_bind=ValueError("lost"), log=log),
        plugin("B", PostBindPlugin, post_bind=None, log=log),
    )
    with caplog.at_level(logging.ERROR):
        made.runner.binding.run_post_bind(state_of(POD), POD, "n1")
    assert log == ["A.post_bind", "B.post_bind"]
    assert "plugin 'A' failed at PostBind" in caplog.text


# Plain functions, and times


def test_a_blocking_synchronous_bind_does_not_block_the_loop() -> None:
    """On a real loop: the plain function waits for something that only the loop can bring."""
    done = threading.Event()

    def bind(*_: object) -> None:
        assert done.wait(timeout=60)

    made = framework(plugin("A", BindPlugin, bind=bind))

    async def scenario() -> Status:
        binding = asyncio.ensure_future(made.runner.binding.run_bind(state_of(POD), POD, "n1"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(done.set)
        return await binding

    assert asyncio.run(scenario()).is_success


@pytest.mark.parametrize("point", ["PreBind", "Bind"])
def test_a_point_that_awaits_is_timed_to_its_end_with_its_true_result(point: str) -> None:
    refusal = later(Status.error("no answer"))
    made = framework(
        plugin("A", BindPlugin, bind=refusal)
        if point == "Bind"
        else plugin("A", PreBindPlugin, pre_bind=refusal)
    )
    state = state_of(POD)
    state.record_plugin_metrics = True
    run = made.runner.binding.run_bind if point == "Bind" else made.runner.binding.run_pre_bind
    run_in_virtual_time(lambda: run(state, POD, "n1"))
    timed = made.runner.metrics.plugin_execution_duration.values
    assert list(timed) == [("A", point, "Error")]
